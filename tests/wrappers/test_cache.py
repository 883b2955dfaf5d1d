"""`CachedModel`: what is answered from the cache, and what is never kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, collect, named_call, open_calls, requests_of, said, text
from wrapper_kit import Held, ask, responses, scripted, texts, told

from flowloom import CachedModel, LlmAgent, LlmRequest, LlmResponse, Runner
from flowloom.errors import ModelUnavailableError
from flowloom.testing import FunctionModel, call, dropped, frozen, truncated

USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=7, total_token_count=12)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("then", [False, True])
async def test_the_same_is_asked_once_streamed_or_not(first: bool, then: bool) -> None:
    model = CachedModel(scripted("Hello to you.", "never"))
    one = (await responses(model, stream=first))[-1]
    other = (await responses(model, stream=then))[-1]
    assert one.text == other.text == "Hello to you."
    assert (model.hits, model.misses) == (1, 1)


async def test_a_streamed_answer_from_the_cache_comes_in_parts_and_whole() -> None:
    answer = said(text("Hm.", thought=True), "Let me see.", call("look", at="this"))
    model = CachedModel(scripted(answer))
    await responses(model)
    *partials, whole = await responses(model, stream=True)
    assert all(each.partial for each in partials)
    assert not whole.partial
    shown = [part for each in partials for part in (each.content and each.content.parts) or ()]
    assert whole.content is not None
    assert shown == whole.content.parts
    assert [part.text for part in shown] == ["Hm.", "Let me see.", None]


async def test_an_edited_partial_response_leaves_the_whole_as_it_is() -> None:
    model = CachedModel(scripted([call("look", at="this")]))
    await responses(model)
    partial, whole = await responses(model, stream=True)
    [shown] = partial.get_function_calls()
    shown.name = "other"
    assert shown.args is not None
    shown.args["at"] = "that"
    [found] = whole.get_function_calls()
    assert (found.name, found.args) == ("look", {"at": "this"})


async def test_an_unstreamed_answer_from_the_cache_is_one_response() -> None:
    model = CachedModel(scripted("Hello."))
    await responses(model, stream=True)
    assert await texts(model) == ["Hello."]


async def test_everything_of_an_answer_is_kept() -> None:
    answer = LlmResponse(
        content=said(
            text("Hm.", thought=True, thought_signature=b"\xff\x00signature"),
            types.Part.from_bytes(data=b"\x89PNG\xff", mime_type="image/png"),
            text("half a character: \ud800"),
        ),
        finish_reason=types.FinishReason.MAX_TOKENS,
        model_version="m-001",
        avg_logprobs=-0.5,
        custom_metadata={"mine": {"deep": [1, None]}},
        citation_metadata=types.CitationMetadata(citations=[types.Citation(uri="https://a.b")]),
    )
    model = CachedModel(scripted(answer))
    await responses(model)
    [found] = await responses(model)
    assert found.custom_metadata is not None
    assert found.custom_metadata.pop("cache").keys() == {"saved_at"}
    assert found == answer


async def test_what_is_done_to_one_answer_does_not_reach_the_next() -> None:
    model = CachedModel(scripted([call("look", at={"deep": 1})]))
    for _ in range(3):
        [response] = await responses(model)
        [found] = response.get_function_calls()
        assert found.args == {"at": {"deep": 1}}
        found.args["at"]["deep"] = 2


async def test_tokens_of_an_answer_from_the_cache_are_not_counted_again() -> None:
    """They stand in `custom_metadata`; the response itself has none, so that no sum of costs has them."""
    with frozen(1000):
        model = CachedModel(scripted(LlmResponse(content=said("Hello."), usage_metadata=USAGE)))
        [first] = await responses(model)
        [second] = await responses(model)
    assert first.usage_metadata == USAGE
    assert first.custom_metadata is None
    assert second.usage_metadata is None
    assert second.custom_metadata == {
        "cache": {"saved_at": 1000, "usage_metadata": {"promptTokenCount": 7, "totalTokenCount": 12}}
    }


async def test_a_run_counts_the_tokens_of_an_answer_once() -> None:
    model = CachedModel(scripted(LlmResponse(content=said("Hello."), usage_metadata=USAGE)))
    counted: list[int] = []
    for session in ("s1", "s2"):
        chat = Chat(LlmAgent(name="root", model=model), session_id=session)
        counted += [
            (each.usage_metadata and each.usage_metadata.total_token_count) or 0 for each in await chat.say("?")
        ]
    assert counted == [12, 0]


async def test_another_request_is_asked_for() -> None:
    model = CachedModel(scripted("One.", "Two."))
    assert [await told(model, ask("1?")), await told(model, ask("2?")), await told(model, ask("1?"))] == [
        "One.",
        "Two.",
        "One.",
    ]


# -- what is not kept --------------------------------------------------------------------------------

NOT_KEPT = {
    "an error": ModelUnavailableError("Down."),
    "a stream that broke": dropped("Hello to you.", after=1),
    "a stream that ended early": truncated("Hello to you.", after=1),
    "nothing at all": truncated("Hello.", after=0),
    "a blocked prompt": LlmResponse(error_code="SAFETY"),
    "an answer with an error": LlmResponse(content=said("Hel"), error_code="MALFORMED"),
    "an interrupted answer": LlmResponse(content=said("Hel"), interrupted=True),
    "an answer whose end nobody saw": LlmResponse(content=said("Hel"), turn_complete=False),
    "an answer that was cut off": LlmResponse(content=said("Hel"), finish_reason=types.FinishReason.SAFETY),
    "an empty answer": LlmResponse(content=types.Content(role="model", parts=[])),
    "an answer without content": LlmResponse(finish_reason=types.FinishReason.STOP),
    "two answers": [LlmResponse(content=said("One.")), LlmResponse(content=said("Two."))],
    "parts without a whole": [LlmResponse(content=said("One."), partial=True)],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answer", NOT_KEPT.values(), ids=NOT_KEPT)
async def test_only_whole_answers_without_errors_are_kept(answer: Any, stream: bool) -> None:
    store: dict[str, str] = {}
    model = CachedModel(scripted(answer, "Well."), store)
    try:
        await responses(model, stream=stream)
    except ModelUnavailableError:
        assert answer is NOT_KEPT["an error"]
    except Exception:
        assert answer is NOT_KEPT["a stream that broke"]
    assert store == {}
    assert await told(model) == "Well."


async def test_what_cannot_be_kept_is_passed_on_as_it_is() -> None:
    """Two whole answers of one call, which no adapter gives, reach the consumer both."""
    model = CachedModel(scripted(NOT_KEPT["two answers"]))
    assert await texts(model) == ["One.", "Two."]


async def test_an_error_after_a_whole_answer_is_raised_after_it() -> None:
    async def answers(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=said("Hello."))
        raise ModelUnavailableError("Down.")

    store: dict[str, str] = {}
    stream = CachedModel(FunctionModel(answers), store).generate_content_async(ask())
    assert (await anext(stream)).text == "Hello."
    with pytest.raises(ModelUnavailableError):
        await anext(stream)
    assert store == {}


async def test_a_stream_that_is_left_is_closed_and_not_kept() -> None:
    inner = Held(go=asyncio.Event())
    model = CachedModel(inner)
    async with aclosing(model.generate_content_async(ask(), True)) as stream:
        async for _ in stream:
            break
    assert inner.closed == 1
    inner.go.set()
    assert await told(model) == "Answer 2"


async def test_an_answer_is_kept_before_anybody_sees_it_whole() -> None:
    """A consumer that stops at the complete response has it kept all the same."""
    store: dict[str, str] = {}
    async with aclosing(CachedModel(scripted("Hello."), store).generate_content_async(ask(), True)) as stream:
        async for response in stream:
            if not response.partial:
                break
            assert store == {}
    assert len(store) == 1


# -- ids of calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, "call_1", "adk-1"])
@pytest.mark.parametrize("stream", [False, True])
async def test_calls_from_the_cache_have_ids_of_their_own(given: str | None, stream: bool) -> None:
    call_of_model = named_call("x", "look") if given is None else named_call(given, "look")
    assert call_of_model.function_call is not None
    call_of_model.function_call.id = given
    model = CachedModel(scripted([call_of_model]))
    ids = [given]
    await responses(model)
    for _ in range(2):
        found = await responses(model, stream=stream)
        own = {each.get_function_calls()[0].id for each in found}
        assert len(own) == 1, "partial and complete response show one id"
        ids += own
    assert len(set(ids)) == 3
    assert all(each and each.startswith("call_" if given == "call_1" else "adk-") for each in ids[1:])


@pytest.mark.parametrize("config", [None, STREAMED], ids=["unary", "streamed"])
@pytest.mark.parametrize("call_id", [None, "call_1"])
async def test_the_same_answer_twice_in_a_session_runs_its_tool_twice(call_id: str | None, config: Any) -> None:
    """Each of the calls is paired with its own result, though the model gave both one id."""
    ran: list[str] = []

    def look(at: str) -> str:
        """Look."""
        ran.append(at)
        return f"{at} is there"

    calling = named_call(call_id, "look", at="it") if call_id else call("look", at="it")
    inner = scripted([calling], "There.", "After all.")
    agent = LlmAgent(name="root", model=CachedModel(inner), tools=[look], include_contents="none")
    chat = Chat(agent, config=config)
    for _ in range(2):
        assert (await chat.say("Is it there?"))[-1].text == "There."
    stored = await chat.stored()
    ids = [each.id for event in stored for each in event.get_function_calls()]
    answered = [each.id for event in stored for each in event.get_function_responses()]
    assert ran == ["it", "it"]
    assert ids == answered
    assert len(set(ids)) == 2
    assert open_calls(stored) == set()
    assert len(inner.requests) == 2

    # and another agent's model is shown both pairs, in order
    listener = LlmAgent(name="root", model=scripted("Twice."))
    runner = Runner(app_name="app", agent=listener, session_service=chat.runner.session_service)
    await collect(runner.run_async(user_id="ann", session_id="s1", new_message="How often?"))
    [seen] = requests_of(listener)
    kinds = [
        "call" if part.function_call else "result" if part.function_response else part.text
        for content in seen.contents
        for part in content.parts or ()
    ]
    assert kinds == ["Is it there?", "call", "result", "There."] * 2 + ["How often?"]
