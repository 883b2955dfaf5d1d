"""`ModelSuite`: what every model adapter promises (contract "Model")."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from typing import ClassVar

import pytest

from flowloom.errors import ModelError
from flowloom.events import LlmResponse
from flowloom.models import BaseLlm, LlmRequest
from flowloom.models.contents import SharedContents
from flowloom.testing.suites.loop import Suite, assert_no_tasks, in_loop, other_tasks
from flowloom.testing.suites.model_answers import (
    ANSWERS,
    EMPTY,
    LONG_TEXT,
    TEXT,
    TWO_CALLS,
    assert_same_answer,
    joined,
    request,
    text_answer,
)


class ModelSuite(Suite):
    """The rules of models. Subclass it in a test module, and make your adapter, with a backend that gives the answers:

    ```python
    from flowloom.testing.suites import ModelSuite


    class TestMyModel(ModelSuite):
        def make_model(self, answers: Sequence[LlmResponse]) -> MyModel:
            return MyModel(base_url=a_server_that_says(answers))
    ```

    The backend gives the first answer to the first call, and so on; an answer holds text, thoughts, calls, or
    nothing, and token counts. Set `scripted = False` for a model that cannot be told what to say: it is then
    compared with itself only. Define `make_failing_model` to have failures checked, too.
    """

    scripted: ClassVar[bool] = True
    """Whether the model gives the answers that `make_model` is told."""
    thoughts: ClassVar[bool] = True
    """Whether the backend can be made to answer with thoughts."""
    call_ids: ClassVar[bool] = True
    """Whether the backend gives ids to its calls."""

    def make_model(self, answers: Sequence[LlmResponse]) -> BaseLlm | Awaitable[BaseLlm]:
        """The model to be checked, made anew for each test. Its backend gives `answers`, one to each call."""
        raise NotImplementedError(f"{type(self).__name__} has to define `make_model(self, answers)`.")

    def make_failing_model(self) -> BaseLlm | Awaitable[BaseLlm] | None:
        """A model whose backend refuses every call; None leaves the rule of failures out."""
        return None

    # -- the answer --------------------------------------------------------------------------------

    @in_loop
    async def test_an_unstreamed_call_gives_one_complete_response(self) -> None:
        """Without streaming there is exactly one response, and it is not partial."""
        for answer in self._answers():
            [response] = [await self._whole(await self._model(answer))]
            if self.scripted:
                assert_same_answer(answer, response, "The backend's answer", "the response", ids=self._ids)

    @in_loop
    async def test_a_streamed_call_ends_with_one_complete_response(self) -> None:
        """With streaming there are partial responses, or none, and then exactly one that is complete."""
        for answer in self._answers():
            responses = await self._all(await self._model(answer), stream=True)
            assert responses, "A streamed call gave no response at all."
            assert not responses[-1].partial, "The last response of a stream is partial; the complete one is missing."
            early = [response for response in responses[:-1] if not response.partial]
            assert not early, f"{len(early)} responses before the last of a stream are not marked `partial`."

    @in_loop
    async def test_a_stream_ends_as_the_unstreamed_answer_is(self) -> None:
        """The complete response of a stream has the text, thoughts, calls, reason and token counts of the whole."""
        for answer in self._answers():
            whole = await self._whole(await self._model(answer))
            streamed = (await self._all(await self._model(answer), stream=True))[-1]
            assert_same_answer(whole, streamed, "Unstreamed, the answer", "streamed, it", ids=self._ids)

    @in_loop
    async def test_partial_texts_join_to_the_complete_text(self) -> None:
        """If there are partial texts, joined they are the text of the complete response, thoughts by themselves."""
        for answer in self._answers():
            *partials, complete = await self._all(await self._model(answer), stream=True)
            for thought in (False, True):
                pieces, text = "".join(joined(each, thought) for each in partials), joined(complete, thought)
                kind = "thoughts" if thought else "texts"
                assert pieces in ("", text), f"The partial {kind} join to {pieces!r}, but complete they are {text!r}."

    @in_loop
    async def test_calls_have_one_id_in_partial_and_complete_responses(self) -> None:
        """A call that partial responses show has the same id in the complete one."""
        for answer in self._answers():
            *partials, complete = await self._all(await self._model(answer), stream=True)
            final = {(call.id, call.name) for call in complete.get_function_calls()}
            shown = {(call.id, call.name) for each in partials for call in each.get_function_calls() if call.name}
            assert shown <= final, f"Partial responses show the calls {shown}, the complete one {final}."

    @in_loop
    async def test_calls_in_one_answer_have_different_ids(self) -> None:
        """Two calls of one answer do not share an id."""
        for stream in (False, True):
            ids = [
                call.id
                for call in (await self._all(await self._model(TWO_CALLS), stream))[-1].get_function_calls()
                if call.id
            ]
            assert len(set(ids)) == len(ids), f"Two calls of one answer share an id: {ids}."

    @in_loop
    async def test_an_empty_answer_is_a_response_too(self) -> None:
        """When the backend says nothing, there is one complete response without text and calls."""
        if not self.scripted:
            pytest.skip("the model cannot be told to say nothing")
        for stream in (False, True):
            responses = await self._all(await self._model(EMPTY), stream)
            complete = [response for response in responses if not response.partial]
            assert len(complete) == 1, f"An empty answer (stream={stream}) became {len(complete)} responses, not 1."
            for response in responses:
                said = (response.text, response.get_function_calls())
                assert said == ("", []), f"An empty answer (stream={stream}) became {said}."

    # -- the request -------------------------------------------------------------------------------

    @in_loop
    async def test_the_request_is_not_changed(self) -> None:
        """A call leaves its request as it was: contents, config, tools. They are the history's and the agent's."""
        for stream in (False, True):
            given = request()
            before, tools = given.model_dump(), dict(given.tools_dict)
            await self._all(await self._model(TEXT), stream, given)
            after = given.model_dump()
            changed = [name for name in before if before[name] != after[name]]
            assert not changed, f"A call (stream={stream}) changed `{'`, `'.join(changed)}` of its request."
            assert given.tools_dict == tools, f"A call (stream={stream}) changed `tools_dict` of its request."

    @in_loop
    async def test_shared_contents_are_accepted_and_not_changed(self) -> None:
        """Contents that are a view of the history (`SharedContents`) do as a list does; the history stays as it is."""
        for stream in (False, True):
            history = request().contents
            before = [content.model_dump() for content in history]
            given = request()
            given.contents = SharedContents(history)
            shared = (await self._all(await self._model(TEXT), stream, given))[-1]
            listed = (await self._all(await self._model(TEXT), stream))[-1]
            assert_same_answer(
                listed, shared, "To a list of contents, the answer", "to `SharedContents`, it", ids=self._ids
            )
            assert [each.model_dump() for each in history] == before, "A call changed contents that the history shares."

    # -- many calls --------------------------------------------------------------------------------

    @in_loop
    async def test_calls_one_after_another_get_their_own_answers(self) -> None:
        """A model may be asked again and again; nothing of one answer is in the next."""
        for stream in (False, True):
            answers = [text_answer(f"answer {number} of a model that is asked again") for number in range(3)]
            model = await self._model(*answers)
            texts = [(await self._all(model, stream))[-1].text for _ in answers]
            if self.scripted:
                assert texts == [each.text for each in answers], f"Calls one after another (stream={stream}): {texts}."
            else:
                assert len(set(texts)) == 1, f"The same question got different answers (stream={stream}): {texts}."

    @in_loop
    async def test_concurrent_calls_do_not_mix(self) -> None:
        """Of calls at once, each gets one answer, whole and by itself."""
        answers = [text_answer(f"{name * 40} is what call {name} is told") for name in "abcdef"]
        model = await self._model(*answers)
        streams = await asyncio.gather(*(self._all(model, stream=True) for _ in answers))
        for *partials, complete in streams:
            pieces = "".join(joined(each, False) for each in partials)
            assert pieces in ("", complete.text), (
                f"Of concurrent calls, one got the partial texts {pieces!r} and the complete text {complete.text!r}."
            )
        if self.scripted:
            texts = sorted(responses[-1].text for responses in streams)
            assert texts == [each.text for each in answers], f"Concurrent calls got the answers {texts}."

    # -- the end -----------------------------------------------------------------------------------

    @in_loop
    async def test_a_stream_that_is_left_leaves_nothing(self) -> None:
        """Closing a stream early ends all that it started, and the model can be asked again."""
        model = await self._model(LONG_TEXT, TEXT)
        before = other_tasks()
        async with aclosing(model.generate_content_async(request(), True)) as stream:
            async for _ in stream:
                break
        await assert_no_tasks("Closing a stream early has to end what it started.", before)
        again = (await self._all(model, stream=True))[-1]
        if self.scripted:
            assert_same_answer(TEXT, again, "The next answer", "after a stream that was left, it", ids=self._ids)

    @in_loop
    async def test_a_call_leaves_nothing(self) -> None:
        """When the last response is there, no task of the call is left."""
        model = await self._model(TEXT, TEXT)
        before = other_tasks()
        for stream in (False, True):
            await self._all(model, stream)
            await assert_no_tasks(f"A call (stream={stream}) has to end what it started.", before)

    @in_loop
    async def test_failures_are_model_errors(self) -> None:
        """A call that the backend refuses raises a `ModelError` that says something, streamed or not."""
        for stream in (False, True):
            made = self.make_failing_model()
            if made is None:
                pytest.skip("`make_failing_model` is not defined")
            model = await self.opened(made)
            before = other_tasks()
            caught: Exception | None = None
            try:
                await self._all(model, stream)
            except Exception as error:
                caught = error
            assert isinstance(caught, ModelError), (
                f"A call (stream={stream}) that the backend refused ended with {caught!r}, not with a `ModelError`."
            )
            assert str(caught), f"The {type(caught).__name__} of a call (stream={stream}) that failed says nothing."
            await assert_no_tasks("A call that failed has to end what it started.", before)

    @in_loop
    async def test_supported_models_are_regular_expressions(self) -> None:
        """A model has a name, and `supported_models` names the models of its class by regular expressions."""
        model = await self._model(TEXT)
        assert model.model, "The model has no name."
        for pattern in type(model).supported_models():
            try:
                re.compile(pattern)
            except re.error as error:
                raise AssertionError(f"`supported_models` has {pattern!r}, no regular expression: {error}") from None

    # -- asking ------------------------------------------------------------------------------------

    @property
    def _ids(self) -> bool:
        """Whether answers to two calls are compared by the ids of their calls, too; ids that are made here differ."""
        return self.call_ids and self.scripted

    def _answers(self) -> list[LlmResponse]:
        """The answers that are tried."""
        if not self.scripted:
            return [TEXT]
        return [answer for answer in ANSWERS if self.thoughts or not joined(answer, True)]

    async def _model(self, *answers: LlmResponse) -> BaseLlm:
        return await self.opened(self.make_model(answers))

    async def _all(self, model: BaseLlm, stream: bool, given: LlmRequest | None = None) -> list[LlmResponse]:
        async with aclosing(model.generate_content_async(given or request(), stream)) as responses:
            return [response async for response in responses]

    async def _whole(self, model: BaseLlm) -> LlmResponse:
        responses = await self._all(model, stream=False)
        assert len(responses) == 1, f"An unstreamed call gave {len(responses)} responses, not 1."
        assert not responses[0].partial, "The response of an unstreamed call is marked `partial`."
        return responses[0]
