"""The rules of what a model makes of the failures of its backend."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from flowloom.errors import ModelError
from flowloom.events import LlmResponse
from flowloom.models import BaseLlm
from flowloom.testing.suites.loop import assert_no_tasks, in_loop, other_tasks
from flowloom.testing.suites.model_answers import TEXT, assert_same_answer, joined, request
from flowloom.testing.suites.model_faults import FAULTS, Fault
from flowloom.testing.suites.model_place import ModelPlace, both_ways

_all_faults = pytest.mark.parametrize("fault", FAULTS)
_passing = pytest.mark.parametrize("fault", [name for name, each in FAULTS.items() if each.passes])
_partial = pytest.mark.parametrize("fault", [name for name, each in FAULTS.items() if each.partial])


class FaultRules(ModelPlace):
    """See `ModelSuite`."""

    @both_ways
    @in_loop
    async def test_failures_are_model_errors(self, stream: bool) -> None:
        """A call that the backend refuses raises a `ModelError` that says something, streamed or not."""
        made = self.make_failing_model()
        if made is None:
            pytest.skip("`make_failing_model` is not defined")
        model = await self.opened(made)
        before = other_tasks()
        _, caught = await _failed(model, stream)
        assert isinstance(caught, ModelError), (
            f"A call that the backend refused ended with {caught!r}, not with a `ModelError`."
        )
        assert str(caught), f"The {type(caught).__name__} of a call that failed says nothing."
        await assert_no_tasks("A call that failed has to end what it started.", before)

    @_all_faults
    @both_ways
    @in_loop
    async def test_faults_are_typed_errors(self, fault: str, stream: bool) -> None:
        """What goes wrong is raised as the `ModelError` for it, which has the status, says whether and when to try
        again, and has what was raised first as its cause. The HTTP library's own errors are not seen."""
        model, wrong = await self._faulty(fault)
        before = other_tasks()
        given, caught = await _failed(model, stream)
        expected = wrong.errors(stream=stream)
        names = " or ".join(f"`{each.__name__}`" for each in expected)
        assert isinstance(caught, expected), f"The fault `{fault}` became {caught!r}, not a {names}."
        assert str(caught), f"The {type(caught).__name__} for the fault `{fault}` says nothing."
        for name in ("status", "retryable", "retry_after"):
            wanted, found = getattr(wrong, name), getattr(caught, name)
            assert wanted in ("any", found), f"For the fault `{fault}`, the error has `{name}` {found}, not {wanted}."
        assert caught.__cause__ is not None or not wrong.caused, f"The error for the fault `{fault}` has no cause."
        assert stream or not given, f"Before the fault `{fault}`, an unstreamed call gave {given}."
        await assert_no_tasks("A call that failed has to end what it started.", before)

    @_passing
    @both_ways
    @in_loop
    async def test_a_model_can_be_asked_again_after_a_fault(self, fault: str, stream: bool) -> None:
        """The next call of the same model gets its answer, and nothing of the one that failed."""
        model, _ = await self._faulty(fault)
        await _failed(model, stream)
        responses, caught = await _failed(model, stream)
        assert caught is None, f"After the fault `{fault}`, the next call ended with {caught!r}."
        assert_same_answer(TEXT, responses[-1], "The next answer", f"after the fault `{fault}`, it", ids=self._ids)
        pieces = "".join(joined(each, False) for each in responses[:-1])
        assert pieces in ("", TEXT.text), f"After the fault `{fault}`, the next answer began with {pieces!r}."

    @_partial
    @in_loop
    async def test_what_came_before_a_fault_is_given_once(self, fault: str) -> None:
        """The partial responses before a fault are given, once each, and no complete one."""
        model, wrong = await self._faulty(fault)
        responses, _ = await _failed(model, stream=True)
        pieces, text = "".join(joined(each, False) for each in responses), wrong.answer.text
        assert pieces, f"Nothing was given of what came before the fault `{fault}`."
        assert text.startswith(pieces), f"Before the fault `{fault}`, {pieces!r} was given of {text!r}."
        complete = [each for each in responses if not each.partial]
        assert not complete, f"After the fault `{fault}`, there was a complete response: {complete}."

    async def _faulty(self, name: str) -> tuple[BaseLlm, Fault]:
        self._skip_if_lacking(name)
        made = self.make_faulty_model(FAULTS[name])
        if made is None:
            pytest.skip("`make_faulty_model` is not defined")
        return await self.opened(made), FAULTS[name]


async def _failed(model: BaseLlm, stream: bool) -> tuple[list[LlmResponse], Exception | None]:
    """What a call gave, and what it raised then."""
    given: list[LlmResponse] = []
    try:
        async with aclosing(model.generate_content_async(request(), stream)) as responses:
            async for each in responses:
                given.append(each)  # noqa: PERF401 - what came before the error is kept
    except Exception as error:
        return given, error
    return given, None
