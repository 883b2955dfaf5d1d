"""The parts of a step around the model call: building the request, and running the calls in the answer (spec §2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.ending import all_ended
from flowloom.context.progress import is_from_agent_tool
from flowloom.context.protocols import RunnableTool
from flowloom.errors import Halt
from flowloom.events.event import Event
from flowloom.flow.delegation import delegated_calls
from flowloom.flow.frame import Frame
from flowloom.flow.output import keep_answer
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
                        event = keep_answer(frame, event)
                        frame.note(event)
                        frame.suspended = frame.suspended or is_from_agent_tool(event)
                        frame.transfer_to = event.actions.transfer_to_agent or frame.transfer_to
                        frame.gave_output = frame.gave_output or event.id in (ctx.run.outputs or ())
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
    ctx, step = frame.ctx, None
    try:
        for step in steps:
            produced = step.run(ctx, request)
            if produced is not None:
                return steps.index(step), produced
            if ctx.end_invocation:
                break
    except Exception as error:
        assert step is not None
        explain(error, ctx, step)
        if not isinstance(error, Halt):
            raise
        frame.halted_by = error.processor
    return len(steps), None


def answer_aloud(
    ctx: InvocationContext, calls: Sequence[types.FunctionCall], tools: Mapping[str, RunnableTool]
) -> tuple[asyncio.Task[CallResults], AsyncGenerator[Event, None]]:
    """Run function calls so that agents that run as tools are heard: the work, and what they say meanwhile."""
    outbox = asyncio.Queue[Event | None]()
    running = asyncio.ensure_future(_run_and_close(ctx.model_copy(update={"outbox": outbox}), outbox, calls, tools))
    return running, _said(outbox, running)


async def _said(outbox: asyncio.Queue[Event | None], running: asyncio.Task[CallResults]) -> AsyncGenerator[Event, None]:
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


def take_results(
    frame: Frame, event: Event, tools: Mapping[str, RunnableTool], results: CallResults
) -> Iterator[Event]:
    """The results of the function calls in a complete model event, and what follows from them (spec §2.6).

    Raises the error of a call that ends the run, when its event was taken.
    """
    if results.event is not None:
        frame.note(results.event)
        frame.transfer_to = results.event.actions.transfer_to_agent
        yield results.event
        parts = (event.content.parts if event.content is not None else None) or ()
        for further in follow_ups(frame.ctx, parts, results.event):
            final = frame.finish_event(further)
            frame.note(final)
            yield final
    yield from results.waiting
    if frame.agent.sub_agents:
        frame.delegated.extend(delegated_calls(event.get_function_calls(), tools, results.event))
    if results.error is not None:
        raise results.error
    frame.suspended = bool(results.waiting)
    answered = results.event is not None and results.event.content is not None
    frame.answered = answered or bool(frame.delegated) or frame.suspended
