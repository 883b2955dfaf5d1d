"""What becomes of the responses of one call of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator

from google.genai import types
from kit import STREAMED, Chat, said

from flowloom import LlmAgent, LlmRequest, LlmResponse
from flowloom.testing import FunctionModel


async def test_a_model_that_ends_without_a_word_is_heard() -> None:
    """As an error of its own."""

    async def silent(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        for response in ():
            yield response

    [event] = await Chat(LlmAgent(name="root", model=FunctionModel(silent))).say("go")
    assert event.error_code == "MODEL_RETURNED_NO_CONTENT"


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
