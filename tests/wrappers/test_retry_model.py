"""`RetryModel`: when a model is asked again, after how long, and when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from kit import said
from models.gemini_wire import answer, refusal, streamed, text, whole
from models.wire_server import WireServer
from wrapper_kit import Endless, Pauses, ask, responses, texts

from flowloom import FallbackModel, Gemini, LlmRequest, LlmResponse, RetryModel, RetryOptions
from flowloom.errors import (
    IncompleteStreamError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
)
from flowloom.testing import FunctionModel, ScriptedModel, dropped, frozen, truncated

DOWN = ModelUnavailableError("Down.", retryable=True)


def retrying(*answers: Any, pauses: Pauses | None = None, attempts: int = 3, **fields: Any) -> RetryModel:
    """A model with this script, asked again without pauses."""
    options = RetryOptions(attempts=attempts, initial_delay=1, jitter=0, sleep=pauses or Pauses())
    return RetryModel(ScriptedModel(answers, stream_chunks=True), options, **fields)


def asked(model: RetryModel) -> int:
    """How often the inner model was asked."""
    assert isinstance(model.inner, ScriptedModel)
    return len(model.inner.requests)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_failed_is_made_again(stream: bool) -> None:
    model = retrying(DOWN, DOWN, "Hello.")
    assert (await texts(model, stream=stream))[-1] == "Hello."
    assert asked(model) == 3


async def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    last = ModelUnavailableError("Still down.", retryable=True)
    model = retrying(DOWN, DOWN, last, "never")
    with pytest.raises(ModelUnavailableError) as caught:
        await responses(model)
    assert caught.value is last
    assert asked(model) == 3


async def test_pauses_grow_as_the_options_say() -> None:
    pauses = Pauses()
    await responses(retrying(DOWN, DOWN, DOWN, "Hello.", pauses=pauses, attempts=4))
    assert pauses.seconds == [1, 2, 4]


async def test_a_pause_that_the_provider_asks_for_is_kept() -> None:
    pauses = Pauses()
    await responses(retrying(ModelRateLimitError("Slow.", retryable=True, retry_after=17), "Hello.", pauses=pauses))
    assert pauses.seconds == [17]


async def test_a_pause_longer_than_the_longest_is_not_waited_for() -> None:
    pauses = Pauses()
    model = retrying(ModelRateLimitError("Slow.", retryable=True, retry_after=61), "never", pauses=pauses)
    with pytest.raises(ModelRateLimitError):
        await responses(model)
    assert pauses.seconds == []


@pytest.mark.parametrize("error", [ModelRequestError("No.", status=400), ValueError("mine"), KeyError("k")])
async def test_what_no_further_call_mends_is_raised_at_once(error: Exception) -> None:
    model = retrying(error, "never")
    with pytest.raises(type(error)) as caught:
        await responses(model)
    assert caught.value is error
    assert asked(model) == 1


async def test_the_options_may_name_other_statuses() -> None:
    options = RetryOptions(http_status_codes=[409], sleep=Pauses())
    inner = ScriptedModel([ModelRequestError("Conflict.", status=409), "Hello."])
    assert await texts(RetryModel(inner, options)) == ["Hello."]


async def test_a_stream_that_breaks_before_anything_came_is_begun_again() -> None:
    model = retrying(dropped("Hello to you all.", after=0), "Hello.")
    assert await texts(model, stream=True) == ["Hello.~", "Hello."]


async def test_a_stream_that_breaks_in_the_middle_is_not_repeated() -> None:
    model = retrying(dropped("Hello to you all.", after=1), "never")
    stream = model.generate_content_async(ask(), True)
    assert (await anext(stream)).text == "Hello to"
    with pytest.raises(ModelStreamError):
        await anext(stream)
    assert asked(model) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_that_says_nothing_at_all_is_asked_again(stream: bool) -> None:
    model = retrying(truncated("Hello.", after=0), "Hello again.")
    assert (await texts(model, stream=stream))[-1] == "Hello again."


async def test_a_model_that_never_says_anything_ends_in_a_stream_error() -> None:
    model = retrying(*[truncated("Hello.", after=0)] * 3)
    with pytest.raises(ModelStreamError, match="before anything came"):
        await responses(model)


async def test_an_answer_that_was_found_incomplete_is_asked_for_again() -> None:
    assert await texts(retrying(IncompleteStreamError("No end."), "Hello.")) == ["Hello."]


async def test_an_answer_that_is_an_error_is_an_answer() -> None:
    blocked = LlmResponse(error_code="SAFETY", error_message="No.")
    model = retrying(blocked, "never")
    assert [each.error_code for each in await responses(model)] == ["SAFETY"]


async def test_an_answer_that_is_an_error_is_asked_for_again_if_its_code_is_named() -> None:
    malformed = LlmResponse(error_code="MALFORMED_FUNCTION_CALL")
    pauses = Pauses()
    model = retrying(malformed, "Hello.", pauses=pauses, error_codes=["MALFORMED_FUNCTION_CALL"])
    assert await texts(model) == ["Hello."]
    assert pauses.seconds == [1]


async def test_a_streamed_answer_that_is_an_error_is_asked_for_again_before_any_of_it_is_given_out() -> None:
    """Adapters stream an error as a partial response, and then as the whole."""
    bad = streamed(answer(finish="MALFORMED_FUNCTION_CALL"))
    with WireServer(bad, streamed(answer(text("Hello."), finish="STOP"))) as server:
        inner = Gemini(model="gemini-2.5-flash", base_url=server.url, api_key="key")
        model = RetryModel(inner, RetryOptions(sleep=Pauses()), error_codes=["MALFORMED_FUNCTION_CALL"])
        assert await texts(model, stream=True) == ["Hello.~", "Hello."]
        await model.aclose()


async def test_a_call_whose_answer_is_not_used_is_closed() -> None:
    closed: list[int] = []

    async def answers(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        try:
            yield LlmResponse(error_code="BAD") if not closed else LlmResponse(content=said("Hello."))
        finally:
            closed.append(1)

    seen: list[int] = []

    async def sleep(seconds: float) -> None:
        seen.append(len(closed))

    model = RetryModel(FunctionModel(answers), RetryOptions(sleep=sleep), error_codes=["BAD"])
    assert await texts(model) == ["Hello."]
    assert seen == [1], "it was closed before the pause"


async def test_the_last_answer_that_is_an_error_is_given_out() -> None:
    malformed = LlmResponse(error_code="MALFORMED_FUNCTION_CALL")
    model = retrying(malformed, malformed, attempts=2, error_codes="MALFORMED_FUNCTION_CALL")
    assert [each.error_code for each in await responses(model)] == ["MALFORMED_FUNCTION_CALL"]
    assert asked(model) == 2


async def test_each_call_has_its_own_attempts() -> None:
    """Calls at once do not share what they count."""
    options = RetryOptions(sleep=lambda seconds: asyncio.sleep(0))
    model = RetryModel(ScriptedModel([*[DOWN] * 6, "a", "b", "c"]), options)
    found = await asyncio.gather(*(texts(model) for _ in range(3)))
    assert sorted(found) == [["a"], ["b"], ["c"]]


async def test_pauses_go_by_the_engines_clock() -> None:
    """A frozen clock takes the pauses of options that say nothing about waiting."""
    with frozen() as clock:
        model = RetryModel(ScriptedModel([DOWN, "Hello."]), RetryOptions(initial_delay=30, jitter=0))
        assert await texts(model) == ["Hello."]
    assert clock.slept == [30]


async def test_cancelling_a_pause_ends_the_call() -> None:
    async def forever(seconds: float) -> None:
        await asyncio.Event().wait()

    inner = ScriptedModel([DOWN, "never"])
    task = asyncio.create_task(responses(RetryModel(inner, RetryOptions(sleep=forever))))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(inner.requests) == 1


async def test_leaving_a_stream_closes_the_inner_one() -> None:
    inner = Endless()
    async with aclosing(RetryModel(inner).generate_content_async(ask(), True)) as stream:
        async for _ in stream:
            break
    assert (inner.chunks, inner.closed) == (1, 1)


async def test_attempts_multiply_with_those_of_an_adapter() -> None:
    """The Gemini adapter retries by itself; with one attempt it leaves that to the wrapper."""
    for own, expected in ((1, 2), (2, 4)):
        with WireServer(*[refusal(503, "UNAVAILABLE")] * 9) as server:
            once = RetryOptions(attempts=own, initial_delay=0, jitter=0)
            inner = Gemini(model="gemini-2.5-flash", base_url=server.url, api_key="key", retry_options=once)
            model = RetryModel(inner, RetryOptions(attempts=2, initial_delay=0, jitter=0))
            with pytest.raises(ModelUnavailableError):
                await responses(model)
            await model.aclose()
            assert len(server.requests) == expected


async def test_a_retry_after_header_reaches_the_wrapper() -> None:
    reply = refusal(429, "RESOURCE_EXHAUSTED", headers={"retry-after": "7"})
    with WireServer(reply, whole(text("Hello."))) as server:
        inner = Gemini(
            model="gemini-2.5-flash", base_url=server.url, api_key="key", retry_options=RetryOptions(attempts=1)
        )
        pauses = Pauses()
        model = RetryModel(inner, RetryOptions(jitter=0, sleep=pauses))
        assert await texts(model) == ["Hello."]
        await model.aclose()
    assert pauses.seconds == [7]


async def test_several_models_are_tried_again_as_one() -> None:
    """Around a fallback, a further attempt begins with the first model."""
    first, second = ScriptedModel([DOWN, "First."], model="a"), ScriptedModel([DOWN], model="b")
    model = RetryModel(FallbackModel([first, second]), RetryOptions(initial_delay=0, jitter=0))
    assert await texts(model) == ["First."]
