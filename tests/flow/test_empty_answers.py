"""A complete response that says nothing becomes an error, never silence (decision 3)."""

from __future__ import annotations

import pytest
from google.genai import types
from kit import Chat, agent, named_call, said, text

from flowloom import LlmResponse
from flowloom.models.base_llm import NO_CONTENT, mark_if_empty

STOP = types.FinishReason.STOP
HEARD = types.Transcription(text="hello")
SIGNED = types.Part(thought_signature=b"s")
IMAGE = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))


def of(*parts: types.Part | str) -> LlmResponse:
    """A response that the model has ended by itself."""
    return LlmResponse(content=said(*parts), finish_reason=STOP)


EMPTY = {
    "no content": LlmResponse(),
    "no parts": of(),
    "an empty text": of(""),
    "blanks": of(" \n"),
    "a thought without words": of(text("", thought=True)),
    "a signature alone": of(SIGNED, ""),
    "the end of a turn that was stopped": LlmResponse(turn_complete=True, finish_reason=STOP),
}
SAID = {
    "words": of("hi"),
    "words behind blanks": of(" ", "hi"),
    "a thought": of(text("hm", thought=True)),
    "a thought of blanks": of(text(" ", thought=True)),
    "a call": of(named_call("c1", "look")),
    "data": of(IMAGE),
    "blanks of which the model has not said that they are all": LlmResponse(content=said(" ")),
    "a part": LlmResponse(content=said(" "), partial=True),
    "an empty part": LlmResponse(partial=True),
    "an interruption": LlmResponse(interrupted=True),
    "what was heard": LlmResponse(input_transcription=HEARD),
    "what was spoken": LlmResponse(output_transcription=HEARD),
    "the end of a turn": LlmResponse(turn_complete=True),
}


@pytest.mark.parametrize("response", EMPTY.values(), ids=EMPTY)
def test_what_says_nothing_is_an_error(response: LlmResponse) -> None:
    """The model's own response stays as it is: it may give it twice."""
    marked = mark_if_empty(response)
    assert (marked.error_code, response.error_code) == (NO_CONTENT, None)
    assert "without saying or calling anything" in (marked.error_message or "")


@pytest.mark.parametrize("response", SAID.values(), ids=SAID)
def test_what_says_anything_or_goes_on_is_none(response: LlmResponse) -> None:
    assert mark_if_empty(response) is response


def test_an_error_keeps_its_own_words() -> None:
    """What the model says of its silence stays."""
    failed = LlmResponse(error_code="SAFETY", error_message="blocked")
    assert mark_if_empty(failed) is failed
    assert mark_if_empty(LlmResponse(error_message="no quota")).error_message == "no quota"


async def test_a_content_without_parts_is_heard() -> None:
    [event] = await Chat(agent("root", LlmResponse(content=types.Content(role="model")))).say("go")
    assert event.error_code == NO_CONTENT


async def test_a_content_without_a_role_is_the_models() -> None:
    """And one with a role keeps it."""
    for role in (None, "model", "assistant"):
        content = types.Content(role=role, parts=[text("hi")])
        [event] = await Chat(agent("root", LlmResponse(content=content))).say("go")
        assert event.content is not None
        assert event.content.role == (role or "model")
        assert content.role == role
