"""Driving agents: the loop over steps, tool calls and transfers, with an explicit stack (spec §1, §2, decision 6).

Handing over is a push, so that a thousand transfers do not deepen Python's stack; what a user sees is as if the turns
were nested. A streamed chunk passes through the model's generator, `drive` and the runner, and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from flowloom.context import InvocationContext
from flowloom.context.origin import note_origin
from flowloom.errors import LimitExceededError
from flowloom.events.event import Event
from flowloom.flow.delegation import close_task, delegated_context
from flowloom.flow.ending import settle_end, settle_failure
from flowloom.flow.frame import Frame
from flowloom.flow.limits import land
from flowloom.flow.model_call import ModelCall
from flowloom.flow.pipeline import events_of, explain
from flowloom.flow.resuming import frames_of
from flowloom.flow.step import answer_aloud, build_request, build_request_plainly, take_results
from flowloom.models.request import LlmRequest
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.telemetry import recorder
from flowloom.tools.calls import run_calls

if TYPE_CHECKING:
    from flowloom.flow.flow import Flow

Events = AsyncGenerator[Event, None]


def run_agent(ctx: InvocationContext) -> Events:
    """Run `ctx.agent` with its callbacks, and all agents it hands over to."""
    return recorded(ctx, drive)


def recorded(ctx: InvocationContext, start: Callable[[InvocationContext], Events]) -> Events:
    """The events of `start(ctx)`, stored in the session if nobody further out stores them."""
    return start(ctx) if ctx.recorded else _record_all(ctx, start)


async def _record_all(ctx: InvocationContext, start: Callable[[InvocationContext], Events]) -> Events:
    ctx = ctx.model_copy(update={"recorded": True})
    events = start(ctx)
    whole = False
    try:
        async for event in events:
            yield await ctx.run.record(ctx, event)
        whole = True
    except Exception as error:
        for event in await settle_failure(ctx, error):
            yield event
        raise
    finally:
        await settle_end(ctx, events, whole=whole)


async def drive(ctx: InvocationContext, flow: Flow | None = None, *, single_step: bool = False) -> Events:
    """Run the turn of `ctx.agent` and of those it hands over to, until control has come back and the turn is over.

    With `flow`, that flow runs in the place of the agent's own, and without the agent's callbacks.
    """
    run = ctx.run
    spans = None if run.rehearsal else recorder()
    stack = frames_of(ctx, flow) if ctx.taken_up else [Frame(ctx, flow=flow)]
    bottom = stack[0]
    try:
        while stack:
            frame = stack[-1]
            if run.stop is not None and not frame.finished:
                run.stopped = True
                break
            if not frame.begun:
                for event in await frame.begin(spans):
                    yield event
            if frame.finished:
                for event in await _leave(stack):
                    yield event
            elif frame.llm is None:
                body = frame.agent.run_body(frame.ctx)
                if frame.span is not None:
                    body = frame.span.watch(body)
                try:
                    async for event in body:
                        if run.streamed is not None and run.streamed.broken:
                            for kept in run.broken_off():
                                yield kept
                        yield frame.own(event)
                finally:
                    await body.aclose()
                for kept in run.broken_off():
                    yield kept
                if run.stopped:
                    break
                frame.finish_body()
            elif frame.delegated and not frame.resuming:
                call = frame.delegated.popleft()
                stack.extend(frames_of(delegated_context(frame.ctx, call), task=call))
            else:
                # -- one step: the request, the model, its tool calls
                request_steps, response_steps = frame.steps
                request = LlmRequest.empty(None)
                frame.begin_step()
                try:
                    index, produced = build_request_plainly(frame, request_steps, request)
                    if produced is not None:
                        async with aclosing(build_request(frame, request_steps, index, request, produced)) as made:
                            async for event in made:
                                yield event
                    if frame.wants_model():
                        landing = frame.landing
                        if landing is not None:
                            land(frame.ctx, request, landing)
                        call = ModelCall(frame.ctx, request, spans)
                        try:
                            await call.begin(counts=landing is None)
                            while (response := await call.next()) is not None:
                                for step in response_steps:
                                    try:
                                        produced = step.run(frame.ctx, request, response)
                                    except Exception as error:
                                        explain(error, frame.ctx, step)
                                        raise
                                    if produced is not None:
                                        async with aclosing(events_of(produced, frame.ctx, step)) as made:
                                            async for event in made:
                                                event = call.told_by(event, response)
                                                frame.note(event)
                                                yield event
                                if response.content is None and not response.error_code and not response.interrupted:
                                    call.count(response)
                                    continue
                                event = call.event(response)
                                if not event.partial:
                                    event = frame.finish_event(event)
                                frame.note(event)
                                yield event
                                if not frame.answered and frame.has_calls(event):
                                    if landing is not None:
                                        for refusal in run.refusals_of(frame.ctx, str(landing)):
                                            yield refusal
                                        break
                                    calls, tools = event.get_function_calls(), request.tools_dict
                                    if run.config.forward_agent_tool_events:
                                        running, said = answer_aloud(frame.ctx, calls, tools)
                                        async with aclosing(said):
                                            async for inner in said:
                                                yield inner
                                        results = await running
                                    else:
                                        results = await run_calls(frame.ctx, calls, tools, None, transfer_problem)
                                    for result in take_results(frame, event, tools, results):
                                        yield result
                                if frame.answered:
                                    break
                        finally:
                            await call.close()
                except LimitExceededError as error:
                    if error.on_limit == "raise":
                        raise
                    for event in frame.reach_limit(error):
                        yield event
                    if run.stopped:
                        break
                    continue
                target, further = frame.conclude_step()
                if further is not None:
                    yield further
                if target is not None:
                    stack.append(Frame(target))
                if single_step and frame is bottom:
                    frame.finished = True
        for frame in reversed(stack):
            if frame.span is not None:
                frame.span.end(last=frame.last)
    except BaseException as error:
        place = stack[-1].ctx if stack else ctx
        if stack and stack[-1].llm is None and isinstance(error, Exception) and run.origin_of(error, place) is place:
            note_origin(error, place, "`_run_async_impl`")
        run.note_failure(error, place)
        for frame in reversed(stack):
            if frame.span is not None:
                frame.span.end(error, frame.last)
        raise


async def _leave(stack: list[Frame]) -> list[Event]:
    """End the topmost turn and give control back to the one below (spec §1.6, decision 27)."""
    frame = stack[-1]
    events = await frame.end()
    stack.pop()
    if not stack:
        return events
    below = stack[-1]
    if frame.task is None:
        below.came_back(frame)
        return events
    waiting = frame.paused or any(c.isolation_scope == frame.task.id for c in below.ctx.run.waiting_calls.values())
    answer = None if waiting else close_task(below.ctx, frame)
    if answer is None:
        for call in (frame.task, *below.delegated):  # a later run answers them
            below.ctx.run.open_calls.pop(call.id or "", None)
        below.finished = below.paused = True
        return events
    below.note(answer)
    return [*events, answer]
