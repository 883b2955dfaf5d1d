"""Running tool calls so that the events of agents that run as tools are seen meanwhile (spec §17.10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.ending import all_ended
from flowloom.context.protocols import RunnableTool
from flowloom.events.event import Event
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.tools.calls import CallResults, run_calls


def run_tools_forwarding_events(
    ctx: InvocationContext, calls: Sequence[types.FunctionCall], tools: Mapping[str, RunnableTool]
) -> tuple[asyncio.Task[CallResults], AsyncGenerator[Event, None]]:
    """Run function calls so that agents that run as tools are heard: the work, and what they say meanwhile."""
    outbox = asyncio.Queue[Event | None]()
    running = asyncio.ensure_future(_run_and_close(ctx.model_copy(update={"outbox": outbox}), outbox, calls, tools))
    return running, _forwarded(outbox, running)


async def _forwarded(
    outbox: asyncio.Queue[Event | None], running: asyncio.Task[CallResults]
) -> AsyncGenerator[Event, None]:
    try:
        while (inner := await outbox.get()) is not None:
            yield inner
        await asyncio.wait([running])
    finally:
        if not running.done():
            running.cancel()
            await all_ended((running,))


async def _run_and_close(
    ctx: InvocationContext,
    outbox: asyncio.Queue[Event | None],
    calls: Sequence[types.FunctionCall],
    tools: Mapping[str, RunnableTool],
) -> CallResults:
    try:
        return await run_calls(ctx, calls, tools, transfer_problem=transfer_problem)
    finally:
        outbox.put_nowait(None)
