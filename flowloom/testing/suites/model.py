"""`ModelSuite`: what every model adapter promises (contract "Model")."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing

from flowloom.testing.suites.loop import assert_no_tasks, in_loop, other_tasks
from flowloom.testing.suites.model_answer_rules import AnswerRules
from flowloom.testing.suites.model_answers import LONG_TEXT, TEXT, assert_same_answer, joined, request, text_answer
from flowloom.testing.suites.model_fault_rules import FaultRules
from flowloom.testing.suites.model_place import both_ways
from flowloom.testing.suites.model_request_rules import RequestRules


class ModelSuite(AnswerRules, RequestRules, FaultRules):
    """The rules of models. Subclass it in a test module, and make your adapter, with a backend that gives the answers:

    ```python
    from flowloom.testing.suites import ModelSuite


    class TestMyModel(ModelSuite):
        def make_model(self, answers: Sequence[LlmResponse]) -> MyModel:
            return MyModel(base_url=a_server_that_says(answers))
    ```

    The backend gives the first answer to the first call, and so on. An answer holds text, thoughts, calls, or
    nothing; reasons why it ended, token counts, log probabilities, citations. What the backend cannot be made to have
    is named in `lacks`, or by `thoughts`, `signatures` and `call_ids`. Set `scripted = False` for a model that cannot
    be told what to say: it is then compared with itself only.

    Further hooks have more checked: `make_failing_model` and `make_faulty_model` what goes wrong, `sent` what reached
    the backend.
    """

    # -- many calls --------------------------------------------------------------------------------

    @both_ways
    @in_loop
    async def test_calls_one_after_another_get_their_own_answers(self, stream: bool) -> None:
        """A model may be asked again and again; nothing of one answer is in the next."""
        answers = [text_answer(f"answer {number} of a model that is asked again") for number in range(3)]
        model = await self._model(*answers)
        texts = [(await self._all(model, stream))[-1].text for _ in answers]
        if self.scripted:
            assert texts == [each.text for each in answers], f"Calls one after another got the answers {texts}."
        else:
            assert len(set(texts)) == 1, f"The same question got different answers: {texts}."

    @both_ways
    @in_loop
    async def test_concurrent_calls_do_not_mix(self, stream: bool) -> None:
        """Of calls at once, each gets one answer, whole and by itself."""
        answers = [text_answer(f"{name * 40} is what call {name} is told") for name in "abcdef"]
        model = await self._model(*answers)
        calls = await asyncio.gather(*(self._all(model, stream) for _ in answers))
        for *partials, complete in calls:
            pieces = "".join(joined(each, False) for each in partials)
            assert pieces in ("", complete.text), (
                f"Of concurrent calls, one got the partial texts {pieces!r} and the complete text {complete.text!r}."
            )
        if self.scripted:
            texts = sorted(responses[-1].text for responses in calls)
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

    @both_ways
    @in_loop
    async def test_a_call_that_is_cancelled_leaves_nothing(self, stream: bool) -> None:
        """Cancelling a call ends all that it started, and the model can be asked again."""
        model = await self._model(TEXT, TEXT)
        before = other_tasks()
        call = asyncio.create_task(self._all(model, stream))
        await asyncio.sleep(0)
        call.cancel()
        [ended] = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(ended, list | asyncio.CancelledError), f"A call that was cancelled ended with {ended!r}."
        await assert_no_tasks("A call that is cancelled has to end what it started.", before)
        again = (await self._all(model, stream))[-1]
        if self.scripted:
            assert_same_answer(TEXT, again, "The next answer", "after a call that was cancelled, it", ids=self._ids)

    @both_ways
    @in_loop
    async def test_a_call_leaves_nothing(self, stream: bool) -> None:
        """When the last response is there, no task of the call is left."""
        model = await self._model(TEXT)
        before = other_tasks()
        await self._all(model, stream)
        await assert_no_tasks("A call has to end what it started.", before)

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
