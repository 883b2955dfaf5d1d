"""Usage of model calls: what was paid is on an event, in the totals and held against limits, whoever answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, said
from runs.situations import held

from flowloom import BasePlugin, LlmResponse, RunResult
from flowloom.testing import dropped


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


async def test_an_error_that_is_answered_has_been_paid() -> None:
    """A response that is an error, and one that a processor takes away, count like any other."""
    failed = LlmResponse(error_code="SAFETY", error_message="no", usage_metadata=usage(10))
    result = await run(agent("root", failed))
    assert (told(result)[0][0], result.usage.total_tokens) == (11, 11)
