"""Response processors run in order, each once, whichever of them produce something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import product
from typing import Any

import pytest
from kit import Chat, agent

from flowloom import Event, Flow, InvocationContext, LlmRequest, LlmResponse
from flowloom.errors import ProcessorError
from flowloom.processors import code_execution_response


def awaited(made: list[Event]) -> Any:
    async def soon() -> list[Event]:
        return made

    return soon()


def generated(made: list[Event]) -> AsyncIterator[Event]:
    async def generate() -> AsyncIterator[Event]:
        for each in made:
            yield each

    return generate()


@pytest.mark.parametrize("form", [list, awaited, generated])
async def test_each_processor_is_called_once_in_order_whatever_those_before_it_produce(form: Any) -> None:
    """All sixteen patterns of four processors that emit or do not."""
    for pattern in product((False, True), repeat=4):
        called: list[int] = []

        def numbered(number: int, emits: bool, called: list[int] = called) -> Any:
            def processor(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> Any:
                called.append(number)
                made = [ctx.new_event({"custom_metadata": {"n": (number, at)}}) for at in range(2)]
                return form(made) if emits else None

            processor.name = f"p{number}"  # type: ignore[attr-defined]
            return processor

        flow = Flow([], [numbered(number, emits) for number, emits in enumerate(pattern)])
        events = await Chat(agent("root", "done", flow=flow)).say("go")
        assert called == [0, 1, 2, 3]
        assert [tuple(event.custom_metadata["n"]) for event in events if event.custom_metadata] == [
            (number, at) for number, emits in enumerate(pattern) if emits for at in range(2)
        ]
        assert events[-1].text == "done"


@pytest.mark.parametrize("which", ["request", "response"])
async def test_a_processor_that_returns_what_it_was_given_is_told_to_change_it(which: str) -> None:
    def returns(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> Any:
        return {"request": request, "response": response}[which]

    with pytest.raises(ProcessorError, match=f"`returns` returned its {which}. It is to change the {which}"):
        await Chat(agent("root", "done", flow=Flow([], [returns]))).say("go")


async def test_an_iterator_without_an_end_of_its_own_is_read_to_its_end() -> None:
    """What can be iterated need not be a generator."""

    class Once:
        def __init__(self, made: list[Event]) -> None:
            self.made: Iterator[Event] = iter(made)

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> Event:
            for each in self.made:
                return each
            raise StopAsyncIteration

    def emits(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> Any:
        return Once([ctx.new_event({"custom_metadata": {"n": number}}) for number in range(2)])

    events = await Chat(agent("root", "done", flow=Flow([], [emits]))).say("go")
    assert [each.custom_metadata["n"] for each in events if each.custom_metadata] == [0, 1]


def test_a_response_processor_is_found_by_itself_as_by_its_name() -> None:
    """To stand beside it, in its place, or to take it out."""

    def mine(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
        """Nothing."""

    for found in (code_execution_response, "code_execution_response"):
        for place, names in (
            ({"before": found}, ["planning_response", "mine", "code_execution_response"]),
            ({"after": found}, ["planning_response", "code_execution_response", "mine"]),
            ({"replace": found}, ["planning_response", "mine"]),
        ):
            assert [step.name for step in Flow().with_processor(mine, **place).response_steps] == names
        assert [step.name for step in Flow().without(found).response_steps] == ["planning_response"]


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.parametrize(
    ("side", "called"), [("request_processors", ["first"]), ("response_processors", ["first", "second"])]
)
async def test_once_the_invocation_is_ended_processors_of_the_request_are_not_called_but_those_of_the_response(
    side: str, called: list[str], says: bool
) -> None:
    """Whether the one that has ended it says something or not."""
    asked: list[str] = []

    def first(ctx: InvocationContext, request: LlmRequest, response: Any = None) -> Event | None:
        asked.append("first")
        ctx.end_invocation = True
        return ctx.new_event({"content": None}) if says else None

    def second(ctx: InvocationContext, request: LlmRequest, response: Any = None) -> None:
        asked.append("second")

    given: dict[str, Any] = {"request_processors": [], "response_processors": [], side: [first, second]}
    await Chat(agent("root", "hi", flow=Flow(**given))).say("go")
    assert asked == called
