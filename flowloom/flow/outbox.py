"""`Outbox`: the events of turns that run beside the one that yields them: in calls of an answer, in a workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from flowloom.context.ending import all_ended
from flowloom.events.event import Event
from flowloom.flow.turn import Events

T = TypeVar("T")
Outbox = asyncio.Queue[tuple[Event, asyncio.Event] | Callable[[], Event] | None]
"""Events as they come, each with what to set when it is taken; what makes an event when it is read; None ends it."""


async def put_events(events: Events, outbox: Outbox) -> None:
    """Put events into an outbox, each with what is set when it is recorded: those who make them go on only then, so
    that they see their own history."""
    async with aclosing(events):
        async for event in events:
            recorded = asyncio.Event()
            outbox.put_nowait((event, recorded))
            await recorded.wait()


def forwarding(work: Coroutine[Any, Any, T], outbox: Outbox) -> tuple[asyncio.Task[T], Events]:
    """Begin some work, whose agents put their events into `outbox`: the work, and the events until it is done. Closing
    them cancels it, and waits for its end."""

    async def worked() -> T:
        try:
            return await work
        finally:
            outbox.put_nowait(None)  # who reads wakes when this is done, and not a turn of the loop later

    running = asyncio.ensure_future(worked())
    return running, _forwarded(outbox, running)


async def _forwarded(outbox: Outbox, running: asyncio.Task[Any]) -> Events:
    try:
        while (item := await outbox.get()) is not None:
            if callable(item):
                yield item()
                continue
            yield item[0]
            item[1].set()
    finally:
        running.cancel()
        await all_ended((running,))
