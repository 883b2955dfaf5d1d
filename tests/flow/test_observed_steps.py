"""An observer is told how long each processor took: its own time, and not that of those who read its events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from kit import Chat, agent

from flowloom import Event, Flow, InvocationContext, LlmRequest
from flowloom.context.observer import Observer, ProcessorCall
from flowloom.flow import observed


class Times(Observer):
    """Notes what it is told at the end of each call, and that none ends before it began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.calls: list[ProcessorCall] = []

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        self.begun.append(call.name)

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        assert call.name in self.begun
        self.calls.append(call)


async def emits(ctx: InvocationContext, request: LlmRequest) -> AsyncIterator[Event]:
    for number in range(2):
        yield ctx.new_event({"custom_metadata": {"n": number}})


async def breaks(ctx: InvocationContext, request: LlmRequest) -> AsyncIterator[Event]:
    yield ctx.new_event({})
    raise LookupError("gone")


def plain(ctx: InvocationContext, request: LlmRequest) -> None:
    """Nothing."""


def fails(ctx: InvocationContext, request: LlmRequest) -> None:
    raise LookupError("gone")


@pytest.mark.parametrize(
    ("processor", "looks", "events", "error"),
    [(plain, 1, 0, None), (emits, 4, 2, None), (fails, 1, 0, LookupError), (breaks, 3, 1, LookupError)],
)
async def test_the_time_between_two_looks_at_the_clock_is_the_processors(
    monkeypatch: pytest.MonkeyPatch, processor: Any, looks: int, events: int, error: Any
) -> None:
    """The call, and each stretch up to an event, up to the end, or up to an error."""
    monkeypatch.setattr(observed, "perf_counter", map(float, count(1000)).__next__)
    times = Times()
    chat = Chat(agent("root", "done", flow=Flow([processor], [])), observers=[times])
    if error is None:
        await chat.say("go")
    else:
        with pytest.raises(error):
            await chat.say("go")
    [call] = times.calls
    assert (call.name, call.seconds, len(call.events)) == (processor.__name__, float(looks), events)
    assert type(call.error) is (error or type(None))
