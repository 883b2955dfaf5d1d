"""Who is asked when plugins and an agent have callbacks of one hook (cases, areas 1 and 6; spec §12.8, §14.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kit import Chat, agent, said

from flowloom import BasePlugin, FunctionTool, LlmRequest, LlmResponse
from flowloom.testing import FunctionModel, call

asked: list[str] = []
BROKE = RuntimeError("plugin broke")
DOWN = ConnectionError("model down")


@pytest.fixture(autouse=True)
def fresh() -> None:
    asked.clear()


def answer_of(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def plugin(name: str, hook: str, value: Any = None) -> BasePlugin:
    """A plugin with one hook, that says it was asked, and answers or raises what it is given."""

    async def ask(self: Any, **_: Any) -> Any:
        asked.append(name)
        return answer_of(value)

    return type("Asked", (BasePlugin,), {hook: ask})(name)


def own(value: Any = None) -> Callable[..., Any]:
    """An agent's callback that says it was asked."""

    def ask(**_: Any) -> Any:
        asked.append("agent")
        return answer_of(value)

    return ask


def works() -> str:
    """Work."""
    return "worked"


def breaks() -> None:
    """Break."""
    raise ValueError("tool broke")


# hook; whether the tool breaks
TOOL_HOOKS = [("before_tool_callback", False), ("after_tool_callback", False), ("on_tool_error_callback", True)]


async def tool_result(hook: str, broken: bool, plugins: list[BasePlugin], value: Any = None) -> Any:
    tool = breaks if broken else works
    root = agent("root", call(tool.__name__), "ok", tools=[tool], **{hook: own(value)})
    events = await Chat(root, plugins=plugins).say("go")
    return events[1].get_function_responses()[0].response


@pytest.mark.parametrize(("hook", "broken"), TOOL_HOOKS)
async def test_plugins_are_asked_in_the_order_in_which_they_are_registered_and_the_agent_last(
    hook: str, broken: bool
) -> None:
    plugins = [plugin("first", hook), plugin("second", hook)]
    expected = {"error": "tool broke"} if broken else {"result": "worked"}
    assert await tool_result(hook, broken, plugins) == expected
    assert asked == ["first", "second", "agent"]


@pytest.mark.parametrize(("hook", "broken"), TOOL_HOOKS)
async def test_a_value_of_a_plugin_leaves_out_the_agents_callback_of_that_hook(hook: str, broken: bool) -> None:
    """Agent-level callback of a hook runs only if plugins gave neither value nor error for that hook."""
    plugins = [plugin("first", hook, {"by": "plugin"}), plugin("second", hook)]
    assert await tool_result(hook, broken, plugins, {"by": "agent"}) == {"by": "plugin"}
    assert asked == ["first"]


@pytest.mark.parametrize(("hook", "broken"), TOOL_HOOKS)
async def test_an_error_of_a_plugin_leaves_out_the_agents_callback_of_that_hook(hook: str, broken: bool) -> None:
    plugins = [plugin("first", hook, BROKE), plugin("second", hook)]
    assert await tool_result(hook, broken, plugins, {"by": "agent"}) == {"error": "plugin broke"}
    assert asked == ["first"]


@pytest.mark.parametrize("hook", ["before_agent_callback", "after_agent_callback"])
async def test_an_answer_of_a_plugin_leaves_out_the_agents_callback_around_its_turn(hook: str) -> None:
    """It counts, too, for an agent that has none."""
    for fields in ({hook: own(said("agent's"))}, {}):
        asked.clear()
        events = await Chat(agent("root", "hi", **fields), plugins=[plugin("first", hook, said("plugin's"))]).say("go")
        assert events[-1].text == "plugin's"
        assert asked == ["first"]


# hook; what the model does
MODEL_HOOKS = [("before_model_callback", "hi"), ("after_model_callback", "hi"), ("on_model_error_callback", DOWN)]
SAID = LlmResponse(content=said("plugin's"))


@pytest.mark.parametrize(("hook", "model"), MODEL_HOOKS)
async def test_an_answer_of_a_plugin_leaves_out_the_agents_callback_around_the_model(hook: str, model: Any) -> None:
    """Agent-level callback skipped when a plugin decides; hooks called in registration order."""
    root = agent("root", model, **{hook: own(LlmResponse(content=said("agent's")))})
    plugins = [plugin("silent", hook), plugin("first", hook, SAID), plugin("second", hook)]
    assert (await Chat(root, plugins=plugins).say("go"))[-1].text == "plugin's"
    assert asked == ["silent", "first"]


@pytest.mark.parametrize(("hook", "model"), MODEL_HOOKS)
async def test_an_error_of_a_plugin_around_the_model_ends_the_run(hook: str, model: Any) -> None:
    root = agent("root", model, **{hook: own(LlmResponse(content=said("agent's")))})
    plugins = [plugin("first", hook, BROKE), plugin("second", hook)]
    with pytest.raises(RuntimeError, match="plugin broke"):
        await Chat(root, plugins=plugins).say("go")
    assert asked == ["first"]


@pytest.mark.parametrize(("hook", "model"), MODEL_HOOKS)
async def test_around_the_model_all_are_asked_while_nobody_answers(hook: str, model: Any) -> None:
    root = agent("root", model, **{hook: own()})
    chat = Chat(root, plugins=[plugin("first", hook), plugin("second", hook)])
    if isinstance(model, Exception):
        with pytest.raises(ConnectionError, match="model down"):
            await chat.say("go")
    else:
        assert (await chat.say("go"))[-1].text == "hi"
    assert asked == ["first", "second", "agent"]


def telling(request: LlmRequest) -> Any:
    """A model that calls a tool, and then tells what came of it."""
    for part in request.contents[-1].parts or []:
        if part.function_response is not None:
            return f"it was {part.function_response.response}"
    return call("works")


WORDS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("before value used", {"before_tool_callback": [own({"by": "b1"})]}, {"by": "b1"}),
    ("extra before skipped", {"before_tool_callback": [own({"by": "b1"}), own({"by": "b2"})]}, {"by": "b1"}),
    ("after value used", {"after_tool_callback": [own({"by": "a1"})]}, {"by": "a1"}),
    ("extra after skipped", {"after_tool_callback": [own({"by": "a1"}), own({"by": "a2"})]}, {"by": "a1"}),
    (
        "after wins over before",
        {"before_tool_callback": own({"by": "b1"}), "after_tool_callback": own({"by": "a1"})},
        {"by": "a1"},
    ),
    ("both None runs tool", {"before_tool_callback": own(), "after_tool_callback": own()}, {"result": "worked"}),
]


@pytest.mark.parametrize(("callbacks", "told"), [w[1:] for w in WORDS], ids=[w[0] for w in WORDS])
async def test_the_final_text_reflects_the_chosen_result(callbacks: dict[str, Any], told: dict[str, str]) -> None:
    """Final model text reflects the chosen tool result."""
    root = agent("root", tools=[FunctionTool(works)], **callbacks)
    root.model = FunctionModel(telling)
    assert (await Chat(root).say("go"))[-1].text == f"it was {told}"


async def test_a_plugin_that_fails_with_every_event_keeps_no_one_from_the_end_of_the_run() -> None:
    """The one error event is stored as it is, and the plugins that watch for errors are told."""
    failing = plugin("failing", "on_event_callback", BROKE)
    chat = Chat(agent("root", "hi"), plugins=[failing, plugin("watching", "on_run_error_callback")])
    with pytest.raises(RuntimeError, match="plugin broke"):
        await chat.say("go")
    assert [event.error_code for event in await chat.stored()] == [None, "RuntimeError"]
    assert asked[-1] == "watching"
