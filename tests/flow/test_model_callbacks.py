"""Callbacks around a model call, of agents and of plugins (cases, area 6; spec §12.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kit import Chat, Ran, agent, requests_of, said

from flowloom import BasePlugin, Context, LlmResponse
from flowloom.testing import call

ran = Ran()
gives = ran.gives


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


def answer(words: str) -> LlmResponse:
    return LlmResponse(content=said(words))


DOWN = ConnectionError("model down")
BROKE = RuntimeError("callback broke")

# the line; the model's answer; before, on error, after; what comes out, or the error; who ran
CASES: list[tuple[str, Any, list[Any], list[Any], list[Any], str | Exception, list[str]]] = [
    ("before: returns nothing | model answer used", "model's", [gives("b")], [], [], "model's", ["b"]),
    ("before: error | run fails with that error", "model's", [gives("b", BROKE)], [], [], BROKE, ["b"]),
    ("before: response | model not called", "model's", [gives("b", answer("b's"))], [], [], "b's", ["b"]),
    (
        "before: the first that answers wins",
        "model's",
        [gives("b1"), gives("b2", answer("b2's")), gives("b3", answer("b3's"))],
        [],
        [],
        "b2's",
        ["b1", "b2"],
    ),
    ("after: nothing | model answer", "model's", [], [], [gives("a")], "model's", ["a"]),
    ("after: response | replaced", "model's", [], [], [gives("a", answer("a's"))], "a's", ["a"]),
    ("after: error | error", "model's", [], [], [gives("a", BROKE)], BROKE, ["a"]),
    ("on_error: no error occurs | not called", "model's", [], [gives("e", answer("e's"))], [], "model's", []),
    ("on_error: returns response | response surfaces", DOWN, [], [gives("e", answer("e's"))], [], "e's", ["e"]),
    ("on_error: returns nothing | the model's error", DOWN, [], [gives("e")], [], DOWN, ["e"]),
    ("on_error: raises other error | that error", DOWN, [], [gives("e", BROKE)], [], BROKE, ["e"]),
    ("before returned error | on_error never consulted", DOWN, [gives("b", BROKE)], [gives("e")], [], BROKE, ["b"]),
    (
        "before returned response | on_error never consulted",
        DOWN,
        [gives("b", answer("b's"))],
        [gives("e")],
        [],
        "b's",
        ["b"],
    ),
    (
        "on_error produced a response | after_model processes it",
        DOWN,
        [],
        [gives("e", answer("e's"))],
        [gives("a", answer("a's"))],
        "a's",
        ["e", "a"],
    ),
    ("on_error produced an error | after_model not run", DOWN, [], [gives("e", BROKE)], [gives("a")], BROKE, ["e"]),
]
TABLE = pytest.mark.parametrize(
    ("model", "before", "on_error", "after", "outcome", "order"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)


async def check(chat: Chat, outcome: str | Exception, order: list[str]) -> None:
    if isinstance(outcome, Exception):
        with pytest.raises(type(outcome), match=str(outcome)):
            await chat.say("go")
    else:
        assert (await chat.say("go"))[-1].text == outcome
    assert ran == order


@TABLE
async def test_callbacks_of_the_agent(
    model: Any, before: list[Any], on_error: list[Any], after: list[Any], outcome: Any, order: list[str]
) -> None:
    root = agent(
        "root",
        model,
        before_model_callback=before,
        on_model_error_callback=on_error,
        after_model_callback=after,
    )
    await check(Chat(root), outcome, order)


@TABLE
async def test_hooks_of_plugins(
    model: Any, before: list[Any], on_error: list[Any], after: list[Any], outcome: Any, order: list[str]
) -> None:
    """All the above via plugins | same; hooks called in registration order."""
    plugins: list[BasePlugin] = []
    for hook, callbacks in (("before_model", before), ("on_model_error", on_error), ("after_model", after)):
        for number, callback in enumerate(callbacks):

            async def ask(self: Any, callback: Any = callback, **arguments: Any) -> Any:
                return callback(**arguments)

            plugins.append(type("Plugin", (BasePlugin,), {f"{hook}_callback": ask})(f"{hook}_{number}"))
    await check(Chat(agent("root", model), plugins=plugins), outcome, order)


async def test_an_agents_callback_is_skipped_when_a_plugin_decides() -> None:
    async def decide(self: Any, **_: Any) -> LlmResponse:
        return answer("plugin's")

    plugin = type("Deciding", (BasePlugin,), {"before_model_callback": decide})("deciding")
    root = agent("root", "model's", before_model_callback=gives("agent's", answer("agent's")))
    await check(Chat(root, plugins=[plugin]), "plugin's", [])
    assert requests_of(root) == []


async def test_what_a_callback_writes_is_on_the_models_event() -> None:
    def note(callback_context: Any, **_: Any) -> None:
        callback_context.state["noted"] = True

    chat = Chat(agent("root", "hi", after_model_callback=note))
    events = await chat.say("go")
    assert events[-1].actions.state_delta == {"noted": True}
    assert (await chat.state())["noted"]


async def test_what_a_callback_writes_is_on_the_event_of_its_own_answer() -> None:
    def answers(callback_context: Context, **_: Any) -> LlmResponse:
        callback_context.state["asked"] = True
        return LlmResponse(content=said("mine"))

    [event] = await Chat(agent("root", "never", before_model_callback=answers)).say("go")
    assert (event.text, event.actions.state_delta) == ("mine", {"asked": True})


async def test_a_callback_may_change_the_request_and_not_the_history() -> None:
    """What is changed in a request's contents is a copy of the session's."""

    def shout(llm_request: Any, **_: Any) -> None:
        llm_request.contents[-1].parts[0].text = "GO"

    root = agent("root", "hi", before_model_callback=shout)
    chat = Chat(root)
    await chat.say("go")
    assert requests_of(root)[0].contents[-1].parts[0].text == "GO"  # type: ignore[index]
    assert (await chat.stored())[0].text == "go"


async def test_a_callback_that_answers_an_error_is_given_the_request_that_failed() -> None:
    def tell(llm_request: Any, **_: Any) -> LlmResponse:
        return answer(f"asked: {llm_request.contents[-1].parts[0].text}")

    assert (await Chat(agent("root", DOWN, on_model_error_callback=tell)).say("go"))[-1].text == "asked: go"


async def test_around_model_wraps_the_call_the_first_outermost() -> None:
    def wrapper(name: str) -> Callable[..., Any]:
        async def around(call_next: Any, llm_request: Any, **_: Any) -> Any:
            ran.append(f"{name} before")
            async for response in call_next(llm_request):
                yield response
            ran.append(f"{name} after")

        return around

    await Chat(agent("root", "hi", around_model=[wrapper("outer"), wrapper("inner")])).say("go")
    assert ran == ["outer before", "inner before", "inner after", "outer after"]


async def test_around_model_is_told_whose_call_it_is() -> None:
    async def around(call_next: Any, callback_context: Context, llm_request: Any) -> Any:
        ran.append(callback_context.agent_name)
        async for response in call_next(llm_request):
            yield response

    await Chat(agent("root", "hi", around_model=around)).say("go")
    assert ran == ["root"]


async def test_around_model_may_try_again() -> None:
    async def twice(call_next: Any, llm_request: Any, **_: Any) -> Any:
        try:
            async for response in call_next(llm_request):
                yield response
        except ConnectionError:
            async for response in call_next(llm_request):
                yield response

    assert (await Chat(agent("root", DOWN, "second try", around_model=twice)).say("go"))[-1].text == "second try"


async def test_around_tool_sees_arguments_and_result() -> None:
    def work(n: int) -> int:
        """Work."""
        return n

    async def doubling(call_next: Any, tool: Any, args: dict[str, Any], **_: Any) -> Any:
        return 10 * await call_next({**args, "n": args["n"] + 1})

    events = await Chat(agent("root", call("work", n=1), "ok", tools=[work], around_tool=doubling)).say("go")
    assert events[1].get_function_responses()[0].response == {"result": 20}
