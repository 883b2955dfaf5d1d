"""The calls of an answer while they run, with the agents that run in them; and those that the client executes."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.ending import all_of
from flowloom.context.protocols import RunnableTool
from flowloom.events.event import Event
from flowloom.events.parts import content_of, response_part
from flowloom.events.requests import RESERVED_CALLS
from flowloom.events.wire import replace
from flowloom.flow.delegation import delegated_context, is_single_turn, response_of_task
from flowloom.flow.outbox import Outbox, forwarding, put_events
from flowloom.flow.play import play
from flowloom.flow.resume import stack_of
from flowloom.flow.turn import AGAIN, Events
from flowloom.log.marks import CLIENT_EXECUTED
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.tools.calls import CallResults, run_calls
from flowloom.tools.delegation import FINISH_TASK, DelegateTool
from flowloom.tools.output import SET_MODEL_RESPONSE
from flowloom.tools.progress_box import ProgressBox

_NEVER_PAUSED = ("transfer_to_agent", SET_MODEL_RESPONSE, FINISH_TASK, *RESERVED_CALLS)
"""Calls that are between the model and the flow, and no client's to execute."""


def tool_run(
    ctx: InvocationContext, calls: Sequence[types.FunctionCall], tools: Mapping[str, RunnableTool]
) -> tuple[Awaitable[CallResults], Events | None]:
    """The run of the calls of an answer, and what agents say meanwhile, to be read to its end first: None if that is
    not seen. Of agents that run as tools, it is if the run's config says so.
    """
    seen = forwards = ctx.run.config.forward_agent_tool_events
    for call in calls:  # no generator: this is done for each answer with calls
        tool = tools.get(call.name or "")
        seen = seen or isinstance(tool, DelegateTool) or getattr(tool, "reports_progress", False)
    if not seen:
        return run_calls(ctx, calls, tools, None, transfer_problem), None
    outbox = Outbox()
    inner = ctx.model_copy(
        update={"delegate": partial(_run_single_turn, ctx, outbox), "progress_box": ProgressBox(outbox)}
    )
    inner.outbox = outbox if forwards else None
    return forwarding(run_calls(inner, calls, tools, None, transfer_problem), outbox)


def resumed_run(ctx: InvocationContext, calls: Sequence[types.FunctionCall]) -> tuple[Awaitable[Event | None], Events]:
    """The same for calls of `single_turn` agents that a run before this one has left open: all are resumed at once. It
    gives the event of their responses."""
    outbox = Outbox()

    async def responses() -> Event | None:
        first = ctx.count_effects("tool", len(calls))
        given = await all_of([_run_single_turn(ctx, outbox, call, first + index) for index, call in enumerate(calls)])
        answered = zip(calls, given, strict=True)
        parts = [response_part(call.id, call.name, each) for call, each in answered if each is not None]
        return ctx.new_event({"content": content_of("user", parts)}) if parts else None

    return forwarding(responses(), outbox)


async def _run_single_turn(
    ctx: InvocationContext, outbox: Outbox, call: types.FunctionCall, number: int
) -> dict[str, Any] | None:
    """The response of the agent that a call is for (spec §17.9), the call's `number` in its step; its events go to
    `outbox`. None if it waits, or the run was stopped in it; and for a `task` agent, whose turn comes after the
    calls."""
    if not is_single_turn(ctx.agent, call):
        return None
    place = delegated_context(ctx, call)
    place.path_prefix = ctx.inside_call(number).path_prefix
    stack = stack_of(place, call)
    turn = stack[0]
    await put_events(play(place.run, stack), outbox)
    return None if turn.outcome is AGAIN else response_of_task(ctx, call, turn)


# -- calls that the client executes: the run stops before them (`RunConfig.pause_on_tool_calls`) --------


def pauses_at(ctx: InvocationContext, event: Event) -> bool:
    """Whether the run is to stop before the calls of an event."""
    wanted = ctx.run.config.pause_on_tool_calls
    calls = [call for call in event.get_function_calls() if call.name not in _NEVER_PAUSED]
    return bool(calls) and (wanted is True or any(call.name in (wanted or ()) for call in calls))


def paused_at(event: Event) -> Event:
    """An event with its calls marked as those that the client executes."""
    all_ids = [call.id for call in event.get_function_calls() if call.name not in RESERVED_CALLS]
    by_themselves = event.long_running_tool_ids or ()
    marked = {CLIENT_EXECUTED: [call_id for call_id in all_ids if call_id not in by_themselves]}
    metadata = {**(event.custom_metadata or {}), **marked}
    return replace(event, long_running_tool_ids=all_ids, custom_metadata=metadata)
