"""The rules of what a model makes of the answers of its backend."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.genai import types

from flowloom.events import LlmResponse
from flowloom.models import LlmRequest
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.model_answers import (
    ANSWERS,
    EMPTY,
    PLAIN,
    TEXT,
    TWO_CALLS,
    assert_same_answer,
    joined,
    parts_of,
    request,
)
from flowloom.testing.suites.model_conversations import Needle, result, user
from flowloom.testing.suites.model_place import ModelPlace, assert_reached, both_ways, scalars_of

_plain_answers = pytest.mark.parametrize("answer", PLAIN)
_all_answers = pytest.mark.parametrize("answer", ANSWERS)
_sent_back = pytest.mark.parametrize("answer", [name for name, each in ANSWERS.items() if parts_of(each)])
_calls = pytest.mark.parametrize("answer", [name for name, each in ANSWERS.items() if each.get_function_calls()])


class AnswerRules(ModelPlace):
    """See `ModelSuite`."""

    @_plain_answers
    @in_loop
    async def test_an_unstreamed_call_gives_one_complete_response(self, answer: str) -> None:
        """Without streaming there is exactly one response, and it is not partial."""
        await self._whole(await self._model(self._answer(answer)))

    @_plain_answers
    @in_loop
    async def test_a_streamed_call_ends_with_one_complete_response(self, answer: str) -> None:
        """With streaming there are partial responses, or none, and then exactly one that is complete."""
        responses = await self._all(await self._model(self._answer(answer)), stream=True)
        assert responses, "A streamed call gave no response at all."
        assert not responses[-1].partial, "The last response of a stream is partial; the complete one is missing."
        early = [response for response in responses[:-1] if not response.partial]
        assert not early, f"{len(early)} responses before the last of a stream are not marked `partial`."

    @_all_answers
    @both_ways
    @in_loop
    async def test_the_answer_is_the_backends(self, answer: str, stream: bool) -> None:
        """The complete response has all that the backend said: nothing is lost, added, moved or of another type."""
        given = self._answer(answer)
        if not self.scripted:
            pytest.skip("the model cannot be told what to say")
        responses = await self._all(await self._model(given), stream, _asking(answer))
        assert_same_answer(given, responses[-1], "The backend's answer", "the response", ids=self._ids)
        if self.signatures:
            told, found = _signatures(given), _signatures(responses[-1])
            assert found >= told, f"Of {told} signatures in the answer `{answer}`, the response has {found}."

    @_plain_answers
    @in_loop
    async def test_a_stream_ends_as_the_unstreamed_answer_is(self, answer: str) -> None:
        """The complete response of a stream has the text, thoughts, calls, reason and token counts of the whole."""
        given = self._answer(answer)
        whole = await self._whole(await self._model(given))
        streamed = (await self._all(await self._model(given), stream=True))[-1]
        assert_same_answer(whole, streamed, "Unstreamed, the answer", "streamed, it", ids=self._ids)

    @_all_answers
    @in_loop
    async def test_partial_texts_join_to_the_complete_text(self, answer: str) -> None:
        """If there are partial texts, joined they are the text of the complete response, thoughts by themselves."""
        *partials, complete = await self._all(await self._model(self._answer(answer)), True, _asking(answer))
        for thought in (False, True):
            pieces, text = "".join(joined(each, thought) for each in partials), joined(complete, thought)
            kind = "thoughts" if thought else "texts"
            assert pieces in ("", text), f"The partial {kind} join to {pieces!r}, but complete they are {text!r}."

    @_calls
    @in_loop
    async def test_calls_have_one_id_in_partial_and_complete_responses(self, answer: str) -> None:
        """A call that partial responses show has the same id in the complete one."""
        *partials, complete = await self._all(await self._model(self._answer(answer)), stream=True)
        final = {(call.id, call.name) for call in complete.get_function_calls()}
        shown = {(call.id, call.name) for each in partials for call in each.get_function_calls() if call.name}
        assert shown <= final, f"Partial responses show the calls {shown}, the complete one {final}."

    @both_ways
    @in_loop
    async def test_calls_in_one_answer_have_different_ids(self, stream: bool) -> None:
        """Two calls of one answer do not share an id."""
        complete = (await self._all(await self._model(TWO_CALLS), stream))[-1]
        ids = [call.id for call in complete.get_function_calls() if call.id]
        assert len(set(ids)) == len(ids), f"Two calls of one answer share an id: {ids}."

    @both_ways
    @in_loop
    async def test_an_empty_answer_is_a_response_too(self, stream: bool) -> None:
        """When the backend says nothing, there is one complete response without text and calls."""
        if not self.scripted:
            pytest.skip("the model cannot be told to say nothing")
        responses = await self._all(await self._model(EMPTY), stream)
        complete = [response for response in responses if not response.partial]
        assert len(complete) == 1, f"An empty answer became {len(complete)} responses, not 1."
        for response in responses:
            said = (response.text, response.get_function_calls())
            assert said == ("", []), f"An empty answer became {said}."

    @_sent_back
    @both_ways
    @in_loop
    async def test_an_answer_can_be_sent_back(self, answer: str, stream: bool) -> None:
        """An answer can be the history of the next request: the backend takes it, and gets its texts, calls and
        signatures as it gave them. A thought that was cut off, and nothing came of, may stay behind."""
        model = await self._model(self._answer(answer), TEXT)
        first = (await self._all(model, stream, _asking(answer)))[-1]
        given = _asking(answer)
        assert first.content is not None, "The answer came without its content."
        results = [result(call.id, call.name or "", {"result": "Done."}) for call in first.get_function_calls()]
        given.contents += [first.content, user(*(results or ["Go on."]))]
        second = (await self._all(model, stream, given))[-1]
        if not self.scripted:
            return
        assert_same_answer(TEXT, second, "The next answer", "after one that was sent back, it", ids=self._ids)
        bodies = self.sent(model)
        if bodies is not None:
            self._assert_sent_back(answer, parts_of(ANSWERS[answer]), bodies[-1])

    def _assert_sent_back(self, answer: str, parts: list[types.Part], body: Any) -> None:
        if all(part.thought for part in parts):
            return
        for part in parts:
            call = part.function_call
            needles: list[Needle] = []
            if call is not None:
                needles = [call.name or "", *scalars_of(call.args or {})]
            elif part.text and part.text.strip() and not part.thought:
                needles = [part.text]
            if part.thought_signature is not None and self.signatures:
                needles.append(base64.b64encode(part.thought_signature).decode())
            assert_reached(answer, needles, body)


def _signatures(response: LlmResponse) -> int:
    return sum(bool(part.thought_signature) for part in parts_of(response))


def _asking(answer: str) -> LlmRequest:
    """A request to which a backend may give the answer of that name."""
    given = request()
    if joined(ANSWERS[answer], True):
        given.config.thinking_config = types.ThinkingConfig(include_thoughts=True)
    if ANSWERS[answer].logprobs_result is not None:
        given.config.response_logprobs, given.config.logprobs = True, 2
    return given
