"""What becomes of the responses of one call of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, result, said, story, user

from flowloom import (
    AgentTool,
    CallbackContext,
    Context,
    Event,
    Flow,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
)
from flowloom.errors import IncompleteStreamError
from flowloom.events.wire import replace
from flowloom.models.server_parts import made_file
from flowloom.testing import FunctionModel, call


async def test_a_model_that_ends_without_a_word_is_heard() -> None:
    """As an error of its own."""

    async def silent(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        for response in ():
            yield response

    [event] = await Chat(LlmAgent(name="root", model=FunctionModel(silent))).say("go")
    assert event.error_code == "MODEL_RETURNED_NO_CONTENT"


USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=5)
METER = LlmResponse(usage_metadata=USAGE)
ENDED = LlmResponse(content=said(), finish_reason=types.FinishReason.STOP, usage_metadata=USAGE)
WORDS = LlmResponse(content=said("hello"))


def gives(*responses: LlmResponse, **fields: Any) -> LlmAgent:
    """An agent whose model gives these responses to each request."""

    async def answers(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        for response in responses:
            yield response

    return LlmAgent(name="root", model=FunctionModel(answers), **fields)


@pytest.mark.parametrize("responses", [(METER, WORDS), (WORDS, METER), (WORDS, ENDED), (METER, WORDS, ENDED)])
async def test_a_response_without_content_beside_one_that_says_something_is_counted_alone(
    responses: tuple[LlmResponse, ...],
) -> None:
    """Spec §2.6: it gives no event; usage often comes so, before the words or behind them."""
    chat = Chat(gives(*responses))
    run = chat.runner.start(user_id="ann", session_id="s1", new_message="go")
    result = await run.result()
    assert [(each.text, each.error_code) for each in result.events] == [("hello", None)]
    assert result.usage.total_tokens == 5 * (len(responses) - 1)


PIECE = LlmResponse(partial=True)
TURN = LlmResponse(turn_complete=True)


async def test_a_response_without_content_gives_no_event_because_a_callback_has_seen_it() -> None:
    events = await Chat(gives(WORDS, METER, after_model_callback=lambda **_: None)).say("go")
    assert [event.text for event in events] == ["hello"]


@pytest.mark.parametrize(
    "responses",
    [(METER,), (METER, METER), (ENDED,), (replace(ENDED, usage_metadata=None),), (PIECE,), (TURN,), (PIECE, TURN)],
)
async def test_responses_that_all_lack_content_are_one_error(responses: tuple[LlmResponse, ...]) -> None:
    """Which says how the model has ended."""
    [event] = await Chat(gives(*responses)).say("go")
    assert (event.error_code, event.finish_reason) == ("MODEL_RETURNED_NO_CONTENT", responses[-1].finish_reason)


async def test_what_an_after_callback_says_in_the_place_of_no_content_is_the_answer() -> None:
    def say(callback_context: Context, llm_response: LlmResponse) -> LlmResponse:
        return WORDS

    chat = Chat(gives(METER, after_model_callback=say))
    assert [each.text for each in await chat.say("go")] == ["hello"]


async def test_what_a_callback_writes_for_a_response_without_content_is_stored() -> None:
    """On the answer if that comes behind it, else on an event of its own."""

    def note(callback_context: Context, llm_response: LlmResponse) -> None:
        callback_context.state["seen"] = callback_context.state.get("seen", 0) + 1

    for responses, deltas in (((METER, WORDS), [{"seen": 2}]), ((WORDS, METER), [{"seen": 1}, {"seen": 2}])):
        chat = Chat(gives(*responses, after_model_callback=note))
        assert [each.actions.state_delta for each in await chat.say("go")] == deltas
        assert await chat.state() == {"seen": 2}


async def test_what_a_piece_was_counted_with_stands_on_the_complete_answer() -> None:
    """If that has no count of its own; once in the totals."""
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=5)

    async def counted(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=said("he"), partial=True)
        yield LlmResponse(content=said("llo"), partial=True, usage_metadata=usage)
        yield LlmResponse(content=said("hello"))

    chat = Chat(LlmAgent(name="root", model=FunctionModel(counted)), config=STREAMED)
    events = await chat.say("go")
    assert [each.text for each in events if not each.partial] == ["hello"]
    assert events[-1].usage_metadata == usage


def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("below", [[], [("worker", call("finish_task", result="ok"))]], ids=["tool", "task"])
async def test_a_model_is_not_listened_to_once_its_calls_are_made(below: list[Any]) -> None:
    """It is to say what comes after them when it knows the results."""
    name = "worker" if below else "look"

    async def goes_on(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        if any(part.function_response for content in request.contents for part in content.parts or ()):
            yield LlmResponse(content=said("done"))
        else:
            yield LlmResponse(content=said(call(name, **({"request": "x"} if below else {}))))
            yield LlmResponse(content=said("and I know nothing yet"))

    workers = [agent(*each, mode="task") for each in below]
    told = story(
        await Chat(LlmAgent(name="root", model=FunctionModel(goes_on), tools=[look], sub_agents=workers)).say("go")
    )
    assert told[-1] == "root: done"
    assert "root: and I know nothing yet" not in told


@pytest.mark.parametrize("as_tool", [False, True])
async def test_a_model_is_not_listened_to_while_an_agent_that_it_has_called_waits(as_tool: bool) -> None:
    payer = agent("payer", call("look"), tools=[FunctionTool(look, require_confirmation=True)])
    if not as_tool:
        payer.mode = "single_turn"
    root = gives(LlmResponse(content=said(call("payer", request="x"))), WORDS)
    root.tools, root.sub_agents = ([AgentTool(payer)], []) if as_tool else ([], [payer])
    assert "root: hello" not in story(await Chat(root).say("go"))


@pytest.mark.parametrize("changes", [False, True])
async def test_a_model_is_listened_to_while_its_call_has_no_result(changes: bool) -> None:
    """It has begun something, whether that has changed the state or not."""

    def order(tool_context: Context) -> None:
        """Order."""
        if changes:
            tool_context.state["ordered"] = True

    root = gives(LlmResponse(content=said(call("order"))), WORDS)
    root.tools = [LongRunningFunctionTool(order)]
    assert story(await Chat(root).say("go")) == ["root: order()", "root: hello"]


async def test_a_call_in_a_part_of_an_answer_is_not_made() -> None:
    """The complete answer has it once more."""
    ran: list[str] = []

    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    pieces = [
        LlmResponse(content=said(call("pay", to="a")), partial=True),
        LlmResponse(content=said(call("pay", to="ann"))),
    ]
    await Chat(agent("root", pieces, "done", tools=[pay]), config=STREAMED).say("go")
    assert ran == ["ann"]


async def test_an_answer_that_was_interrupted_before_a_word_is_an_event() -> None:
    [event] = await Chat(agent("root", LlmResponse(interrupted=True))).say("go")
    assert (event.interrupted, event.content) == (True, None)


async def test_what_a_callback_writes_is_on_the_complete_event() -> None:
    """Once: no part of the answer has it."""

    def note(callback_context: CallbackContext, **_: Any) -> None:
        callback_context.state["asked"] = True

    pieces = [LlmResponse(content=said("he"), partial=True), LlmResponse(content=said("hello"))]
    events = await Chat(agent("root", pieces, before_model_callback=note), config=STREAMED).say("go")
    assert [each.actions.state_delta for each in events] == [{}, {"asked": True}]


async def test_thoughts_that_end_in_an_error_end_the_turn() -> None:
    """The model is not asked again, as it is after thoughts alone."""
    cut = LlmResponse(content=said(types.Part(text="hm", thought=True)), error_code="MAX_TOKENS", error_message="cut")
    assert story(await Chat(agent("root", cut, "done")).say("go")) == ["root: (hm)", "root: !MAX_TOKENS"]


async def test_a_file_in_a_response_that_a_model_gives_twice_is_saved_twice() -> None:
    """What becomes of its response is none of the model's to see."""
    chat = Chat(gives(LlmResponse(content=said("Here.", made_file("a.png", "draw", "image/png", b"x")))))
    saved = [name for _ in range(2) for event in await chat.say("go") for name in event.actions.artifact_delta]
    assert saved == ["a.png", "a.png"]


async def test_a_part_of_a_second_answer_is_not_completed_by_an_end_without_words() -> None:
    part = LlmResponse(content=said("and"), partial=True)
    with pytest.raises(IncompleteStreamError, match="never came"):
        await Chat(gives(WORDS, part, ENDED), config=STREAMED).say("go")


async def test_an_answer_has_not_the_id_of_parts_of_one_that_a_processor_has_put_something_in_the_place_of() -> None:
    def looked_up(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> Event | None:
        if response.partial or ctx.step:
            return None
        response.content = None
        return ctx.new_event({"content": user(result("c1", "look", {}))})

    stream = [LlmResponse(content=said("hel"), partial=True), WORDS]
    root = gives(*stream, flow=Flow().with_response_processor(looked_up))
    first, *_, last = await Chat(root, config=STREAMED).say("go")
    assert (first.text, last.text) == ("hel", "hello")
    assert first.id != last.id
