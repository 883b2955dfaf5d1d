"""The end of a run that did not come to its own: the history is made legal, and keeps what was streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from flowloom.context import Context, InvocationContext, Run
from flowloom.context.ending import to_its_end
from flowloom.context.hooks import notify_error
from flowloom.context.run import INTERRUPTED
from flowloom.context.streamed import speaker_of
from flowloom.errors import LimitExceededError, RunLostError, error_text
from flowloom.events.event import Event
from flowloom.events.wire import set_fields
from flowloom.log.marks import AGENT_TOOL_CALL, RUN_ENDED

Events = AsyncGenerator[Event, None]
FINISHING_SECONDS = 10.0
"""How long a store, and the plugins, may take for the events that end a cancelled run."""


def error_event(ctx: InvocationContext, error: BaseException, ended: str = "failed", whose: str = RUN_ENDED) -> Event:
    """The event that stands for what ends a run (decision 31), or an agent's turn."""
    return ctx.new_event(
        {
            "error_code": type(error).__name__,
            "error_message": error_text(error),
            "error": error,
            "custom_metadata": {whose: ended},
        }
    )


async def record_end(
    ctx: InvocationContext, end: Event | None = None, speaker: tuple[Any, ...] | None = None
) -> list[Event]:
    """Store the event that tells of the end of a run, and before it the texts of answers that were cut off with it.

    The text of `speaker`, or of the agent that spoke last, is in the end itself, which has its id and place then. If
    the run stores no `end` (its consumer has gone, say), only such a text tells of it.
    """
    run = ctx.run
    events = [] if run.streamed is None else run.streamed.cut_off()
    own = [each for each in events if AGENT_TOOL_CALL not in (each.custom_metadata or ())]
    last = next((each for each in reversed(own) if speaker is None or speaker_of(each) == speaker), None)
    if last is not None:
        events.remove(last)
        told = {RUN_ENDED: "cancelled"} if end is None else end.custom_metadata
        set_fields(last, custom_metadata=told)
        if end is not None:
            set_fields(last, error_code=end.error_code, error_message=end.error_message, error=end.error)
        end = last
    if end is not None:
        events.append(end)
    for event in events:
        set_fields(event, timestamp=run.effects.now(ctx))
    return [await run.record(ctx, event, durable=False) for event in events]


async def finish_failed_run(ctx: InvocationContext, error: Exception) -> list[Event]:
    """Make the history legal after `error`, store the one event that tells of it (decision 31), tell the plugins."""
    run = ctx.run
    failed = run.origin_of(error, ctx)
    events: list[Event] = []
    if not (isinstance(error, RunLostError) and run.lost):  # no error of the run, which another process resumes
        ended = "limit" if isinstance(error, LimitExceededError) else "failed"
        end = error_event(failed, error, ended)

        async def finish() -> list[Event]:
            reason = f"The run failed before this call gave a result: {error_text(error)}"
            return [*await run.answer_open_calls(ctx, reason), *await record_end(failed, end, speaker_of(end))]

        try:
            events = await _to_its_end(run, finish())
        finally:
            await run.flush()
        run.check_stored()
    await notify_error(run.hooks.on_agent_error, agent=failed.agent, callback_context=Context(failed), error=error)
    await notify_error(run.hooks.on_run_error, invocation_context=ctx, error=error)
    return events


async def record_cancellation(ctx: InvocationContext, error: Exception) -> list[Event]:
    """Store the one event that tells, by `error`, that the run was cancelled."""
    events = await _to_its_end(ctx.run, record_end(ctx, error_event(ctx, error, "cancelled")))
    await ctx.run.flush()
    return events


async def finish_run(ctx: InvocationContext, events: Events, *, whole: bool = False) -> list[Event]:
    """Leave nothing behind: close the stream, answer what was cut off, wait for threads (decision 22).

    `events` is the run's stream. Unless the run is over as a `whole`, or its end is told by another event, what was
    streamed is kept. Returns the events that answer and keep. It may be cancelled any number of times, and is done all
    the same.
    """
    run = ctx.run
    try:
        await events.aclose()
    finally:
        try:
            if run.stopped == "paused":
                run.leave_open(*run.open_calls)
            left = run.open_calls or run.undelivered_events or run.in_doubt_event or (run.streamed and not whole)
            appended = await _to_its_end(run, _finished(ctx, whole)) if left else []
        finally:
            try:
                await run.flush()
            finally:
                if run.own_threads is not None:
                    await run.own_threads.close()
    return [] if run.lost else appended


async def _finished(ctx: InvocationContext, whole: bool) -> list[Event]:
    """Answer what was cut off, and keep what was streamed."""
    try:
        return [*await ctx.run.answer_open_calls(ctx, INTERRUPTED), *(() if whole else await record_end(ctx))]
    except RunLostError:  # whoever has the session now does that
        if ctx.session.fence is None:
            raise
        ctx.session.fence.refused = True  # it is told at the end of the run
        return []


async def _to_its_end(run: Run, finishing: Coroutine[Any, Any, list[Event]]) -> list[Event]:
    late = f"The session store has not taken what ends run `{run.invocation_id}`, which was cancelled,"
    return await to_its_end(finishing, hurried=run.stop == "cancelled", grace=FINISHING_SECONDS, late=late) or []
