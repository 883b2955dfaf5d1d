"""The parts of a step around the model call: building the request, and running the calls in the answer (spec §2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from flowloom.context.progress import is_from_agent_tool
from flowloom.errors import Halt
from flowloom.events.event import Event
from flowloom.flow.delegation import delegated_calls
from flowloom.flow.frame import Frame
from flowloom.flow.pipeline import Step, events_of, explain
from flowloom.models.request import LlmRequest
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.tools.calls import CallResults, run_calls
from flowloom.tools.confirmation import follow_ups


async def build_request(
    frame: Frame, steps: tuple[Step, ...], first: int, request: LlmRequest, produced: object
) -> AsyncGenerator[Event, None]:
    """The request side from the processor `first` on, which has produced something to be awaited or yielded."""
    ctx = frame.ctx
    for step in steps[first:]:
        try:
            if produced is None:
                produced = step.run(ctx, request)
            if produced is not None:
                async with aclosing(events_of(produced, ctx, step)) as made:
                    async for event in made:
                        frame.note(event)
                        frame.suspended = frame.suspended or is_from_agent_tool(event)
                        frame.transfer_to = event.actions.transfer_to_agent or frame.transfer_to
                        frame.gave_output = frame.gave_output or event.actions.set_model_response is not None
                        yield event
        except Halt as halt:
            explain(halt, ctx, step)
            frame.halted_by = halt.processor
        except Exception as error:
            explain(error, ctx, step)
            raise
        produced = None
        if frame.halted_by or ctx.end_invocation:
            return


def build_request_plainly(frame: Frame, steps: tuple[Step, ...], request: LlmRequest) -> tuple[int, object]:
    """The request side as plain calls, as far as nothing has to be awaited or yielded.

    Returns the index of the processor that produced something, and what; or the number of processors and None.
    """
    ctx = frame.ctx
    for index, step in enumerate(steps):
        try:
            produced = step.run(ctx, request)
        except Halt as halt:
            explain(halt, ctx, step)
            frame.halted_by = halt.processor
            break
        except Exception as error:
            explain(error, ctx, step)
            raise
        if produced is not None:
            return index, produced
        if ctx.end_invocation:
            break
    return len(steps), None


async def answer_calls(frame: Frame, event: Event, request: LlmRequest) -> AsyncGenerator[Event, None]:
    """Run the function calls of a complete model event; yield the results and what follows from them (spec §2.6)."""
    ctx, tools = frame.ctx, request.tools_dict
    calls = event.get_function_calls()
    if ctx.run_config.forward_agent_tool_events:
        ctx = ctx.model_copy(update={"outbox": asyncio.Queue[Event | None]()})
        running = asyncio.ensure_future(
            _run_and_close(ctx, run_calls(ctx, calls, tools, transfer_problem=transfer_problem))
        )
        try:
            while (inner := await ctx.outbox.get()) is not None:  # type: ignore[union-attr]
                yield inner
            results = await running
        finally:
            if not running.done():
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    else:
        results = await run_calls(ctx, calls, tools, transfer_problem=transfer_problem)
    if results.event is not None:
        frame.note(results.event)
        frame.transfer_to = results.event.actions.transfer_to_agent
        yield results.event
        parts = (event.content.parts if event.content is not None else None) or ()
        for further in follow_ups(frame.ctx, parts, results.event):
            final = frame.finish_event(further)
            frame.note(final)
            yield final
    for waiting in results.waiting:
        yield waiting
    frame.delegated.extend(delegated_calls(calls, tools, results.event))
    if results.error is not None:
        raise results.error
    frame.suspended = bool(results.waiting)
    frame.answered = results.event is not None or bool(frame.delegated) or frame.suspended


async def _run_and_close(ctx: object, running: object) -> CallResults:
    try:
        return await running  # type: ignore[misc]
    finally:
        ctx.outbox.put_nowait(None)  # type: ignore[attr-defined]
