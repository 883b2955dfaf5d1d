"""Callbacks around a tool call, of agents and of plugins (cases, area 1; spec §14.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kit import Chat, Ran, agent, story

from flowloom import BasePlugin, LlmAgent
from flowloom.testing import call

ran = Ran()
gives = ran.gives


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


def work() -> dict[str, str]:
    """Work."""
    ran.append("tool")
    return {"by": "tool"}


def breaks() -> dict[str, str]:
    """Break."""
    ran.append("tool")
    raise ValueError("tool broke")


def sees(name: str, value: Any = None) -> Callable[..., Any]:
    """An after callback that notes the result it saw."""

    def callback(**arguments: Any) -> Any:
        ran.append(f"{name} saw {arguments.get('tool_response', arguments.get('result'))}")
        return value

    return callback


VALUE, OTHER, ERROR = {"by": "first"}, {"by": "second"}, RuntimeError("callback broke")
TOLD = {"error": "callback broke"}
BROKE = {"error": "tool broke"}

# the line of the catalogue; the tool; before, on error, after; the result; who ran
CASES: list[tuple[str, Any, list[Any], list[Any], list[Any], dict[str, Any], list[str]]] = [
    ("tool returns a dict | dict returned", work, [], [], [], {"by": "tool"}, ["tool"]),
    ("tool raises | {error: message}", breaks, [], [], [], BROKE, ["tool"]),
    (
        "first before-callback returns value | tool and second before-callback not called",
        work,
        [gives("b1", VALUE), gives("b2", OTHER)],
        [],
        [],
        VALUE,
        ["b1"],
    ),
    (
        "first before-callback errors | tool not called; later before-callbacks not called",
        work,
        [gives("b1", ERROR), gives("b2", VALUE)],
        [],
        [],
        TOLD,
        ["b1"],
    ),
    ("after-callback returns value | replaces result", work, [], [], [gives("a1", VALUE)], VALUE, ["tool", "a1"]),
    (
        "tool errors, first after-callback converts error to value | second not called",
        breaks,
        [],
        [],
        [gives("a1", VALUE), gives("a2", OTHER)],
        VALUE,
        ["tool", "a1"],
    ),
    (
        "after-callback errors after success | {error}; later after-callbacks skipped",
        work,
        [],
        [],
        [gives("a1", ERROR), gives("a2", VALUE)],
        TOLD,
        ["tool", "a1"],
    ),
    (
        "before and after return None | tool result unchanged",
        work,
        [gives("b1")],
        [],
        [gives("a1")],
        {"by": "tool"},
        ["b1", "tool", "a1"],
    ),
    (
        "before value + after present | after sees the before value and may replace it",
        work,
        [gives("b1", VALUE)],
        [],
        [sees("a1", OTHER)],
        OTHER,
        ["b1", f"a1 saw {VALUE}"],
    ),
    (
        "before error + after present | after sees the error and may turn it into a value",
        work,
        [gives("b1", ERROR)],
        [],
        [sees("a1", VALUE)],
        VALUE,
        ["b1", f"a1 saw {TOLD}"],
    ),
    (
        "before error + on-error handler | on-error receives that error; its value becomes result",
        work,
        [gives("b1", ERROR)],
        [gives("e1", VALUE)],
        [],
        VALUE,
        ["b1", "e1"],
    ),
    (
        "before error + on-error value + after | after sees no error and its value wins",
        work,
        [gives("b1", ERROR)],
        [gives("e1", VALUE)],
        [sees("a1", OTHER)],
        OTHER,
        ["b1", "e1", f"a1 saw {VALUE}"],
    ),
    (
        "before error + on-error raises other error + after raises | last error reported",
        work,
        [gives("b1", ERROR)],
        [gives("e1", RuntimeError("worse"))],
        [gives("a1", RuntimeError("worst"))],
        {"error": "worst"},
        ["b1", "e1", "a1"],
    ),
    (
        "before error + on-error raises + after handles | after value is result",
        work,
        [gives("b1", ERROR)],
        [gives("e1", RuntimeError("worse"))],
        [sees("a1", VALUE)],
        VALUE,
        ["b1", "e1", "a1 saw {'error': 'worse'}"],
    ),
]
TABLE = pytest.mark.parametrize(
    ("tool", "before", "on_error", "after", "expected", "order"),
    [case[1:] for case in CASES],
    ids=[c[0] for c in CASES],
)


def results(events: list[Any]) -> list[Any]:
    return [response.response for event in events for response in event.get_function_responses()]


@TABLE
async def test_callbacks_of_the_agent(
    tool: Any, before: list[Any], on_error: list[Any], after: list[Any], expected: Any, order: list[str]
) -> None:
    root = agent(
        "root",
        call(tool.__name__),
        "ok",
        tools=[tool],
        before_tool_callback=before,
        on_tool_error_callback=on_error,
        after_tool_callback=after,
    )
    assert results(await Chat(root).say("go")) == [expected]
    assert ran == order


@pytest.mark.parametrize("name", ["look", "nothing"])
async def test_a_callback_that_is_told_of_an_error_may_write_to_the_state(name: str) -> None:
    """Also where no tool has run."""

    def look() -> None:
        raise ValueError("dark")

    def note(tool_context: Any, **_: Any) -> None:
        tool_context.state["failed"] = True

    chat = Chat(agent("root", call(name), "ok", tools=[look], on_tool_error_callback=note))
    await chat.say("go")
    assert await chat.state() == {"failed": True}


def plugins_of(before: list[Any], on_error: list[Any], after: list[Any]) -> list[BasePlugin]:
    """A plugin for each callback; they are asked in the order in which they are registered."""
    made: list[BasePlugin] = []
    for hook, callbacks in (("before_tool", before), ("on_tool_error", on_error), ("after_tool", after)):
        for number, callback in enumerate(callbacks):

            async def ask(self: Any, callback: Any = callback, **arguments: Any) -> Any:
                return callback(**arguments)

            made.append(type("Plugin", (BasePlugin,), {f"{hook}_callback": ask})(f"{hook}_{number}"))
    return made


@TABLE
async def test_hooks_of_plugins(
    tool: Any, before: list[Any], on_error: list[Any], after: list[Any], expected: Any, order: list[str]
) -> None:
    """Every case above through plugins: the same result."""
    chat = Chat(agent("root", call(tool.__name__), "ok", tools=[tool]), plugins=plugins_of(before, on_error, after))
    assert results(await chat.say("go")) == [expected]
    assert ran == order


async def test_an_agents_callback_runs_only_if_the_plugins_gave_nothing() -> None:
    """Agent-level callback of a hook runs only if plugins gave neither value nor error for that hook."""
    root = agent(
        "root",
        call("work"),
        "ok",
        tools=[work],
        before_tool_callback=gives("agent before", OTHER),
        after_tool_callback=gives("agent after"),
    )
    chat = Chat(root, plugins=plugins_of([gives("plugin before", VALUE)], [], [gives("plugin after")]))
    assert results(await chat.say("go")) == [VALUE]
    assert ran == ["plugin before", "plugin after", "agent after"]


async def test_a_callback_may_change_the_arguments_and_history_keeps_the_models() -> None:
    """Also what stands deep in them."""

    def echo(words: list[str]) -> list[str]:
        """Say it again."""
        return words

    def louder(args: dict[str, Any], **_: Any) -> None:
        args["words"][0] = args["words"][0].upper()

    root = agent("root", call("echo", words=["hi"]), "ok", tools=[echo], before_tool_callback=louder)
    events = await Chat(root).say("x")
    assert story(events)[:2] == ["root: echo(words=['hi'])", "root: echo -> {'result': ['HI']}"]


async def test_callbacks_of_plugins_and_agents_are_told_of_the_same_call() -> None:
    """The tool, the model's arguments, the place, and what came of it."""
    seen: list[dict[str, Any]] = []

    class Watching(BasePlugin):
        async def before_tool_callback(self, **told: Any) -> None:
            seen.append(told)

        async def on_tool_error_callback(self, **told: Any) -> None:
            seen.append(told)

        async def after_tool_callback(self, **told: Any) -> None:
            seen.append(told)

    def fails(n: int) -> None:
        """Fail."""
        raise ValueError("broke")

    def watch(**told: Any) -> None:
        seen.append(told)

    own = {f"{name}_callback": watch for name in ("before_tool", "on_tool_error", "after_tool")}
    root = agent("root", call("fails", n=1), "ok", tools=[fails], **own)
    events = await Chat(root, plugins=[Watching("watching")]).say("go")
    [made] = events[0].get_function_calls()
    assert {(each["tool"].name, each["tool_context"].function_call_id) for each in seen} == {("fails", made.id)}
    assert [each.get("tool_args", each.get("args")) for each in seen] == [{"n": 1}] * 6
    assert [str(each.get("error")) for each in seen] == ["None", "None", "broke", "broke", "None", "None"]
    assert [each.get("result", each.get("tool_response")) for each in seen] == [None] * 4 + [{"error": "broke"}] * 2


async def test_callbacks_may_be_async_and_get_adks_keywords() -> None:
    seen: list[set[str]] = []

    async def before(**arguments: Any) -> None:
        seen.append(set(arguments))

    async def after(**arguments: Any) -> None:
        seen.append(set(arguments))

    root = LlmAgent(
        name="root",
        model=agent("x", call("work"), "ok").model,
        tools=[work],
        before_tool_callback=before,
        after_tool_callback=[after],
    )
    await Chat(root).say("go")
    assert seen == [{"tool", "args", "tool_context"}, {"tool", "args", "tool_context", "tool_response"}]
