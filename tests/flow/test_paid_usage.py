"""Usage of model calls: what was paid is on an event, in the totals and held against limits, whoever answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, model, said
from runner.situations import held

from flowloom import (
    BaseLlm,
    BasePlugin,
    Event,
    FallbackModel,
    Flow,
    InvocationContext,
    Limits,
    LlmAgent,
    LlmResponse,
    RetryModel,
    RetryOptions,
    RunResult,
)
from flowloom.testing import call, dropped


def usage(prompt: int, answer: int = 1) -> types.GenerateContentResponseUsageMetadata:
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt, candidates_token_count=answer, total_token_count=prompt + answer
    )


def paid(words: str = "hi", tokens: int = 10, **fields: Any) -> LlmResponse:
    return LlmResponse(
        content=said(words),
        usage_metadata=usage(tokens),
        model_version="m-1",
        finish_reason=types.FinishReason.STOP,
        **fields,
    )


def piece(tokens: int) -> LlmResponse:
    return paid("hi", tokens, partial=True)


async def run(root: Any, **options: Any) -> RunResult:
    return await held(Chat(root, **options)).result()


def told(result: RunResult) -> list[Any]:
    """Of each event that says something: its tokens, model and finish reason."""
    return [
        (
            each.usage_metadata.total_token_count if each.usage_metadata else None,
            each.model_version,
            each.finish_reason and each.finish_reason.value,
        )
        for each in result.events
        if each.content is not None or each.error_code
    ]


class Replacing(BasePlugin):
    async def after_model_callback(self, **_: Any) -> LlmResponse:
        return LlmResponse(content=said("other"))


@pytest.mark.parametrize("by", ["agent", "plugin"])
async def test_a_replaced_answer_keeps_what_was_paid(by: str) -> None:
    """Usage, model version and finish reason of the model's response are those of the event."""
    if by == "plugin":
        result = await run(agent("root", paid()), plugins=[Replacing(name="other")])
    else:
        result = await run(agent("root", paid(), after_model_callback=lambda **_: LlmResponse(content=said("other"))))
    assert result.text == "other"
    assert told(result) == [(11, "m-1", "STOP")]
    assert result.usage.total_tokens == 11


async def test_what_the_replacement_says_itself_counts() -> None:
    """A callback that knows better is believed."""
    result = await run(agent("root", paid(), after_model_callback=lambda **_: paid("other", 99)))
    assert told(result) == [(100, "m-1", "STOP")]
    assert result.usage.total_tokens == 100


async def test_an_answer_in_the_place_of_an_error_keeps_what_was_paid_until_then() -> None:
    """What a broken stream had cost is on the answer of the error callback; without one, on the error event."""
    broken = dropped([piece(10), piece(12), paid()], after=2)
    root = agent("root", broken, on_model_error_callback=lambda **_: LlmResponse(content=said("sorry")))
    result = await run(root, config=STREAMED)
    assert (result.text, result.usage.total_tokens) == ("sorry", 13)
    assert told(result) == [(13, "m-1", "STOP")]
    result = await run(agent("root", broken), config=STREAMED)
    assert (result.status, result.usage.total_tokens) == ("failed", 13)
    assert [each[0] for each in told(result)] == [13]


@pytest.mark.parametrize(("kept", "tokens"), [(True, 32), (False, 32)], ids=["passed on", "replaced"])
async def test_a_wrapper_that_asks_twice_has_paid_twice(kept: bool, tokens: int) -> None:
    """Answers that a wrapper drops are counted; what it says in the model's place has the usage of the last one."""

    async def twice(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        async for _first in call_next(llm_request):
            pass
        async for second in call_next(llm_request):
            yield second if kept else LlmResponse(content=said("mine"))

    result = await run(agent("root", paid(tokens=10), paid(tokens=20), around_model=twice))
    assert told(result) == [(21, "m-1", "STOP")]
    assert result.usage.total_tokens == tokens


def blocked(tokens: int = 10) -> LlmResponse:
    return LlmResponse(error_code="SAFETY", error_message="no", usage_metadata=usage(tokens))


@pytest.mark.parametrize("deep", [False, True], ids=["the request", "a copy of it"])
@pytest.mark.parametrize("around", ["fallback", "retry"])
async def test_an_error_response_that_a_model_drops_was_paid(around: str, deep: bool) -> None:
    """Models that ask again, or another one, leave the event the usage of its answer; totals and limits count all."""

    async def copied(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        async for each in call_next(llm_request.model_copy(deep=True)):
            yield each

    if around == "fallback":
        asked: BaseLlm = FallbackModel([model(blocked(10), model="a"), model(paid(tokens=20), model="b")], on="SAFETY")
    else:
        options = RetryOptions(sleep=lambda _: asyncio.sleep(0))
        asked = RetryModel(model(blocked(10), paid(tokens=20)), options, error_codes=["SAFETY"])
    root = LlmAgent(name="root", model=asked, around_model=copied if deep else None)
    result = await run(root)
    assert told(result)[0][0] == 21
    assert (result.usage.total_tokens, result.model_calls) == (32, 1)


async def test_error_responses_before_a_failure_were_paid() -> None:
    """If no model gives an answer, the totals still say what was paid."""
    down = dropped("never", after=0)
    result = await run(LlmAgent(name="root", model=FallbackModel([model(blocked()), model(down)], on="SAFETY")))
    assert (result.status, result.usage.total_tokens) == ("failed", 11)


async def test_an_error_that_is_answered_has_been_paid() -> None:
    """A response that is an error, and one that a processor takes away, count like any other."""
    failed = LlmResponse(error_code="SAFETY", error_message="no", usage_metadata=usage(10))
    result = await run(agent("root", failed))
    assert (told(result)[0][0], result.usage.total_tokens) == (11, 11)


async def test_an_answer_that_a_wrapper_drops_counts_for_the_agent_s_own_limit() -> None:
    """As for that of the run; also if the model gives the same response twice."""

    async def twice(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        async for _first in call_next(llm_request):
            pass
        async for second in call_next(llm_request):
            yield second

    def look() -> str:
        """Look."""
        return "seen"

    calls = LlmResponse(content=said(call("look")), usage_metadata=usage(10))
    own = Limits(total_tokens=20, on_limit="stop")
    result = await run(agent("root", calls, calls, "never", tools=[look], around_model=twice, limits=own))
    assert (result.status, result.usage.total_tokens, result.text) == ("limit", 22, "")


async def rewritten(ctx: InvocationContext, request: Any, response: LlmResponse) -> AsyncIterator[Event]:
    """An answer in the place of the model's."""
    response.content = None
    yield ctx.new_event({"content": said("mine")})


def returned(ctx: InvocationContext, request: Any, response: LlmResponse) -> list[Event]:
    """The same, at once, and a note that costs nothing."""
    response.content = None
    return [ctx.new_event({"content": said("mine")}), ctx.new_event({"content": said("a note")})]


def after_a_note(ctx: InvocationContext, request: Any, response: LlmResponse) -> list[Event]:
    """The same, behind an event without words."""
    response.content = None
    return [ctx.new_event({"custom_metadata": {"seen": True}}), ctx.new_event({"content": said("mine")})]


def beside(ctx: InvocationContext, request: Any, response: LlmResponse) -> Event:
    """A note beside the model's answer."""
    return ctx.new_event({"content": said("a note")})


@pytest.mark.parametrize("processor", [rewritten, returned, after_a_note, beside], ids=lambda each: each.__name__)
async def test_one_event_of_a_response_processor_says_what_the_answer_was_paid_for(processor: Any) -> None:
    """In the place of the model's answer, the first one does; beside it, the answer itself does."""
    root = agent("root", paid(), flow=Flow().with_response_processor(processor))
    result = await run(root)
    assert sum(each[0] or 0 for each in told(result)) == result.usage.total_tokens == 11
    assert processor is not beside or [each[0] for each in told(result)] == [None, 11]


@pytest.mark.parametrize("kind", ["free", "failed", "failing", "partial"])
async def test_an_event_of_a_response_processor_says_only_what_the_answer_was_paid_for(kind: str) -> None:
    """Nothing of an answer that cost nothing; nothing if the answer or the event is an error, or the event a part,
    which is no answer itself."""

    def instead(ctx: InvocationContext, request: Any, response: LlmResponse) -> Event:
        response.content = None
        failed = {"error_code": "REFUSED"} if kind == "failing" else {}
        return ctx.new_event({"content": said("mine"), "partial": kind == "partial" or None, **failed})

    answer = paid()
    if kind == "free":
        answer.usage_metadata = None
    if kind == "failed":
        answer.error_code = "MAX_TOKENS"
    result = await run(agent("root", answer, flow=Flow().with_response_processor(instead)))
    assert told(result)[0] == (None, None, None)
    assert result.usage.total_tokens == (0 if kind == "free" else 11)


async def test_a_part_without_words_is_not_counted_beside_the_answer() -> None:
    counted = LlmResponse(partial=True, usage_metadata=usage(10))
    result = await run(agent("root", [counted, paid()]), config=STREAMED)
    assert (told(result), result.usage.total_tokens) == ([(11, "m-1", "STOP")], 11)


async def test_what_an_event_of_a_response_processor_was_paid_for_itself_stays() -> None:
    """Another model made it, say."""

    def instead(ctx: InvocationContext, request: Any, response: LlmResponse) -> Event:
        response.content = None
        return ctx.new_event({"content": said("mine"), "usage_metadata": usage(2)})

    result = await run(agent("root", paid(), flow=Flow().with_response_processor(instead)))
    assert told(result)[0] == (3, None, None)
    assert result.usage.total_tokens == 11


@pytest.mark.parametrize("instead", [False, True], ids=["beside them", "in their place"])
async def test_parts_of_a_stream_that_a_processor_tells_of_are_paid_for_once(instead: bool) -> None:
    """By the answer itself, however many of its parts say what it has cost so far."""

    def notes(ctx: InvocationContext, request: Any, response: LlmResponse) -> Event | None:
        if not response.partial:
            return None
        response.content = None if instead else response.content
        return ctx.new_event({"content": said("a note")})

    root = agent("root", [piece(5), piece(8), paid()], flow=Flow().with_response_processor(notes))
    result = await run(root, config=STREAMED)
    assert [each[0] for each in told(result)] == [None, None, 11]
    assert result.usage.total_tokens == 11


@pytest.mark.parametrize(
    ("count", "first", "total"),
    [(20, 21, 32), (99, 100, 100)],
    ids=["of the model's own, written anew", "of its own"],
)
async def test_a_wrapper_may_say_what_an_answer_cost(count: int, first: int, total: int) -> None:
    """A count that is none of the model's stands for all of them."""

    async def twice(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        async for _first in call_next(llm_request):
            pass
        async for _second in call_next(llm_request):
            yield paid("mine", count)

    result = await run(agent("root", paid(tokens=10), paid(tokens=20), around_model=twice))
    assert told(result) == [(first, "m-1", "STOP")]
    assert result.usage.total_tokens == total


async def test_a_model_that_was_not_asked_may_be_said_to_have_cost_something() -> None:
    """By whatever stands in for it."""

    async def remembered(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        yield paid("mine", 7)

    result = await run(agent("root", around_model=remembered))
    assert (told(result), result.usage.total_tokens) == ([(8, "m-1", "STOP")], 8)


async def twice_and_last(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
    """Asks twice and gives the second answer, as it comes."""
    async for _first in call_next(llm_request):
        pass
    async for second in call_next(llm_request):
        yield second


async def test_what_a_model_drops_is_counted_each_time_that_a_wrapper_asks_it() -> None:
    asked = FallbackModel([model(blocked(10), blocked(10)), model(paid(tokens=20), paid(tokens=20))], on="SAFETY")
    result = await run(LlmAgent(name="root", model=asked, around_model=twice_and_last))
    assert result.usage.total_tokens == 11 + 21 + 11 + 21


async def test_parts_of_a_second_answer_do_not_say_what_the_first_has_cost() -> None:
    """A part is in no total: the first answer is counted on its own."""
    pieces = [LlmResponse(content=said("hi"), partial=True), paid(tokens=20)]
    result = await run(agent("root", paid(tokens=10), pieces, around_model=twice_and_last), config=STREAMED)
    assert (told(result), result.usage.total_tokens) == ([(21, "m-1", "STOP")], 32)


async def test_a_wrapper_that_leaves_an_answer_half_said_has_paid_for_the_half() -> None:
    async def impatient(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        async with aclosing(call_next(llm_request)) as first:
            await anext(first)
        async with aclosing(call_next(llm_request)) as second:
            await anext(second)
        yield LlmResponse(content=said("mine"))

    root = agent("root", [piece(10), paid()], [piece(20), paid()], around_model=impatient)
    assert (await run(root, config=STREAMED)).usage.total_tokens == 32
