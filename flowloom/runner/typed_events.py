"""The typed events of a run that is under way."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from flowloom.errors import FlowloomError
from flowloom.events import Event
from flowloom.run_stream.mapper import RunStreamMapper
from flowloom.run_stream.records import RunStreamEvent
from flowloom.runner.invocation import Invocation


async def typed_events(
    invocation: Invocation, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[RunStreamEvent, None]:
    """The typed events of a run whose `events` these are, to the end of it; what ends it is told and not raised."""
    mapper = RunStreamMapper()
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
    for shown in RunStreamMapper().finish(status="failed", error=error):
        yield shown
