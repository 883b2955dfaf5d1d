"""The typed events of a run that is under way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from flowloom import run_stream
from flowloom.errors import FlowloomError
from flowloom.events import Event
from flowloom.runner.rounds import Rounds

if TYPE_CHECKING:
    from flowloom.run_stream import RunStreamEvent


async def typed_events(invocation: Rounds, events: AsyncGenerator[Event, None]) -> AsyncGenerator[RunStreamEvent, None]:
    """The typed events of a run whose `events` these are, to the end of it; what ends it is told and not raised."""
    mapper = run_stream.RunStreamMapper()
    error: Exception | None = None
    try:
        async for event in events:
            for shown in mapper.feed(event):
                yield shown
    except Exception as raised:
        invocation.failed(raised)
        error = raised
    finally:
        await events.aclose()
    for shown in mapper.finish(status=invocation.status, error=error):
        yield shown


async def refusal(error: FlowloomError) -> AsyncGenerator[RunStreamEvent, None]:
    """The typed events of a run that cannot begin."""
    for shown in run_stream.RunStreamMapper().finish(status="failed", error=error):
        yield shown
