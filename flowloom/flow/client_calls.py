"""Calls that the client executes, because the run stops before them (`RunConfig.pause_on_tool_calls`)."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.requests import RESERVED_CALLS
from flowloom.events.wire import replace
from flowloom.log.marks import CLIENT_EXECUTED
from flowloom.tools.delegation import FINISH_TASK
from flowloom.tools.output import SET_MODEL_RESPONSE

_NEVER_PAUSED = ("transfer_to_agent", SET_MODEL_RESPONSE, FINISH_TASK, *RESERVED_CALLS)
"""Calls that are between the model and the flow, and no client's to execute."""


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
