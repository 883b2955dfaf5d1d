"""What after-model callbacks are given and may replace (spec §12.2 to §12.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, requests_of, said

from flowloom import BasePlugin, LlmAgent, LlmRequest, LlmResponse
from flowloom.models.base_llm import NO_CONTENT
from flowloom.testing import FunctionModel, call

HALVES = [LlmResponse(content=said("one "), partial=True), LlmResponse(content=said("two"), partial=True)]
STREAM = [*HALVES, LlmResponse(content=said("one two"))]


def look() -> str:
    """Look."""
    return "seen"


async def test_every_chunk_is_given_partial_ones_too() -> None:
    given: list[tuple[str, bool]] = []

    def note(llm_response: LlmResponse, **_: Any) -> None:
        given.append((llm_response.text, bool(llm_response.partial)))

    await Chat(agent("root", list(STREAM), after_model_callback=note), config=STREAMED).say("go")
    assert given == [("one ", True), ("two", True), ("one two", False)]


async def test_a_chunk_may_be_replaced_and_stays_in_its_place() -> None:
    """Non-None replaces the response; the log keeps the complete one as it was replaced."""

    def louder(llm_response: LlmResponse, **_: Any) -> LlmResponse:
        return LlmResponse(content=said(llm_response.text.upper()), partial=llm_response.partial)

    chat = Chat(agent("root", list(STREAM), after_model_callback=louder), config=STREAMED)
    events = await chat.say("go")
    assert [(event.text, bool(event.partial)) for event in events] == [
        ("ONE ", True),
        ("TWO", True),
        ("ONE TWO", False),
    ]
    assert [event.text for event in await chat.stored()] == ["go", "ONE TWO"]


async def test_what_replaces_a_chunk_and_does_not_say_what_it_is_is_a_chunk() -> None:
    """A callback that says it itself is taken at its word."""

    def other(llm_response: LlmResponse, **_: Any) -> LlmResponse | None:
        if llm_response.text == "one ":
            return LlmResponse(content=said("eins "))
        return LlmResponse(content=said("zwei"), partial=False) if llm_response.text == "two" else None

    events = await Chat(agent("root", list(STREAM), after_model_callback=other), config=STREAMED).say("go")
    assert [(event.text, bool(event.partial)) for event in events] == [
        ("eins ", True),
        ("zwei", False),
        ("one two", False),
    ]


async def test_calls_have_their_ids_when_a_callback_sees_them() -> None:
    """Missing function-call ids are filled before after_model."""
    ids: list[Any] = []

    def note(llm_response: LlmResponse, **_: Any) -> None:
        ids.extend(part.function_call.id for part in llm_response.content.parts if part.function_call is not None)

    events = await Chat(agent("root", call("look"), "ok", tools=[look], after_model_callback=note)).say("go")
    assert ids == [each.id for each in events[0].get_function_calls()]
    assert ids[0].startswith("adk-")


async def test_a_call_that_a_callback_puts_in_the_place_of_the_same_one_has_the_id_that_was_seen_of_it() -> None:
    """In parts of a streamed answer, that is, to whose call the model gave none."""

    def again(llm_response: LlmResponse, **_: Any) -> LlmResponse | None:
        called = llm_response.content is not None and any(
            part.function_call for part in llm_response.content.parts or ()
        )
        return LlmResponse(content=said(call("look"))) if called and not llm_response.partial else None

    stream = [LlmResponse(content=said(call("look")), partial=True), LlmResponse(content=said(call("look")))]
    root = agent("root", stream, "ok", tools=[look], after_model_callback=again)
    events = await Chat(root, config=STREAMED).say("go")
    part, whole = [event.get_function_calls()[0].id for event in events if event.get_function_calls()]
    assert part == whole


async def test_a_call_that_a_callback_gives_twice_has_two_ids() -> None:
    def twice(llm_response: LlmResponse, **_: Any) -> LlmResponse | None:
        parts = (llm_response.content and llm_response.content.parts) or []
        return LlmResponse(content=said(*parts, *parts)) if parts[0].function_call else None

    root = agent("root", call("look"), "ok", tools=[look], after_model_callback=twice)
    events = await Chat(root).say("go")
    ids = [each.id for each in events[0].get_function_calls()]
    assert len(set(ids)) == 2
    assert all(ids)
    assert [each.id for each in events[1].get_function_responses()] == ids


async def test_a_call_that_a_callback_makes_is_carried_out() -> None:
    """Ids are filled again behind the callbacks."""
    made = [LlmResponse(content=said(call("look")))]

    def calls(**_: Any) -> LlmResponse | None:
        return made.pop() if made else None

    root = agent("root", "I would rather not", "ok", tools=[look], after_model_callback=calls)
    chat = Chat(root)
    events = await chat.say("go")
    (asked,) = events[0].get_function_calls()
    assert asked.id
    assert asked.id == events[1].get_function_responses()[0].id
    assert events[-1].text == "ok"


async def test_a_call_that_stands_in_for_the_model_s_answer_is_carried_out() -> None:
    """Under an id of its own."""
    made = [LlmResponse(content=said(call("look")))]

    def calls(**_: Any) -> LlmResponse | None:
        return made.pop() if made else None

    events = await Chat(agent("root", "ok", tools=[look], before_model_callback=calls)).say("go")
    (asked,) = events[0].get_function_calls()
    assert asked.id
    assert asked.id == events[1].get_function_responses()[0].id


async def test_what_stands_in_for_the_model_is_not_given() -> None:
    """A before_model result is yielded directly; after_model is not run."""
    given: list[Any] = []
    root = agent(
        "root",
        before_model_callback=lambda **_: LlmResponse(content=said("instead")),
        after_model_callback=lambda **fields: given.append(fields),
    )
    assert (await Chat(root).say("go"))[-1].text == "instead"
    assert (given, requests_of(root)) == ([], [])


@pytest.mark.parametrize("broken_after", [0, 1])
async def test_a_stream_that_breaks_may_be_mended(broken_after: int) -> None:
    """The response takes the error's place, also behind chunks that were shown, and is the complete event."""

    async def breaking(call_next: Any, llm_request: Any, **_: Any) -> Any:
        count = 0
        async for response in call_next(llm_request):
            if count == broken_after:
                raise ConnectionError("line cut")
            count += 1
            yield response

    def mend(error: Exception, **_: Any) -> LlmResponse:
        return LlmResponse(content=said(f"mended: {error}"))

    root = agent("root", list(STREAM), around_model=breaking, on_model_error_callback=mend)
    chat = Chat(root, config=STREAMED)
    events = await chat.say("go")
    assert [event.text for event in events] == [*["one "][:broken_after], "mended: line cut"]
    assert [event.text for event in await chat.stored()] == ["go", "mended: line cut"]


async def test_an_error_response_of_a_model_is_given_like_any_other() -> None:
    """A model that answers with an error code did not fail: on_model_error is not asked, after_model is."""
    asked: list[str] = []

    def note(name: str) -> Any:
        return lambda **_: asked.append(name)

    root = agent(
        "root",
        [LlmResponse(error_code="SAFETY", error_message="blocked")],
        on_model_error_callback=note("on_error"),
        after_model_callback=note("after"),
    )
    events = await Chat(root).say("go")
    assert events[-1].error_code == "SAFETY"
    assert asked == ["after"]


@pytest.mark.parametrize("config", [None, STREAMED])
async def test_an_answer_that_says_nothing_is_told_as_an_error(config: Any) -> None:
    """Decision 3: as from `before_model`, and from the model itself; a plugin's too."""

    def nothing(**_: Any) -> LlmResponse:
        return LlmResponse()

    class Mute(BasePlugin):
        async def after_model_callback(self, **_: Any) -> LlmResponse:
            return nothing()

    for chat in (
        Chat(agent("root", "hi", before_model_callback=nothing), config=config),
        Chat(agent("root", "hi", after_model_callback=nothing), config=config),
        Chat(agent("root", "hi"), plugins=[Mute(name="mute")], config=config),
    ):
        await chat.say("go")
        assert [event.error_code for event in await chat.stored()] == [None, NO_CONTENT]


async def test_what_a_callback_writes_to_a_response_is_not_in_what_the_model_gives_next() -> None:
    """Though it gives the same object again."""

    def louder(llm_response: LlmResponse, **_: Any) -> None:
        assert llm_response.content is not None
        llm_response.content = said(f"{(llm_response.content.parts or [])[0].text}!")

    given = LlmResponse(content=said("hello"))

    async def same(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        yield given

    chat = Chat(LlmAgent(name="root", model=FunctionModel(same), after_model_callback=louder))
    assert [(await chat.say("go"))[-1].text for _ in range(2)] == ["hello!", "hello!"]


async def test_a_response_emptied_where_it_is_is_told_as_an_error() -> None:
    def empty(llm_response: LlmResponse, **_: Any) -> None:
        llm_response.content = None

    [event] = await Chat(agent("root", "hi", after_model_callback=empty)).say("go")
    assert event.error_code == NO_CONTENT


async def test_a_callback_that_answers_what_it_is_given_leaves_a_silent_response_silent() -> None:
    """Beside one with words; alone it is an error still."""
    meter = LlmResponse(usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=5))
    words = LlmResponse(content=said("hi"))

    def same(llm_response: LlmResponse, **_: Any) -> LlmResponse:
        return llm_response

    for responses, told in (
        ([meter, words], [("hi", None)]),
        ([words, meter], [("hi", None)]),
        ([meter], [("", NO_CONTENT)]),
    ):
        events = await Chat(agent("root", responses, after_model_callback=same)).say("go")
        assert [(event.text, event.error_code) for event in events] == told
