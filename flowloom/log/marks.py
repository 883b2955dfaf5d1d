"""The keys of an event's `custom_metadata` by which the engine tells its own events apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowloom.events.event import UNFIT_OUTPUT, Event

CLIENT_EXECUTED = "client_executed_calls"
"""Says that the run stopped before the event's calls, which the client executes (`RunConfig.pause_on_tool_calls`), or
else the run that resumes it; it names those that wait for no other reason."""
AGENT_TOOL_CALL = "agent_tool_call_id"
"""Marks the events of agents that run as tools."""
AGENT_TOOL_PARTIAL = "agent_tool_partial"
"""Beside it on an event that is forwarded: whether it was partial before it was forwarded."""
RUN_ENDED = "run_ended"
"""Says how its run has ended: `failed`, `limit` or `cancelled`."""
AGENT_ENDED = "agent_ended"
"""Says that a `limit` of its agent has ended the agent's turn."""
TOOL_PROGRESS = "tool_progress"
"""Marks a partial event by which a call tells how far it is."""
A2A_CONTEXT, A2A_TASK, A2A_LOGIN = "a2a:context_id", "a2a:task_id", "a2a:login"
"""On the events of agents of other services: the context that the service keeps for the session, the task that the
event came of, and that it asks for the credential which calls of the service need."""
MARKS = (
    {CLIENT_EXECUTED, AGENT_TOOL_CALL, AGENT_TOOL_PARTIAL, TOOL_PROGRESS}
    | {RUN_ENDED, AGENT_ENDED, UNFIT_OUTPUT}
    | {A2A_CONTEXT, A2A_TASK, A2A_LOGIN}
)
"""What no caller may have a run put on its events."""
REPEATED = "repeated_calls"
"""The key of an event's `agent_state` that names calls of an earlier run which are about to be made."""


def is_from_agent_tool(event: Event) -> bool:
    """Whether an event is that of an agent that runs as a tool, kept because it waits; its scope is the tool's call."""
    return bool(event.isolation_scope) and bool(event.custom_metadata) and AGENT_TOOL_CALL in event.custom_metadata


def tells_of_end(event: Event) -> bool:
    """Whether an event only says how a run has ended."""
    return bool(event.custom_metadata) and RUN_ENDED in event.custom_metadata


def ids_under(marks: Mapping[str, Any] | None, key: str) -> list[str]:
    """The call ids that an event lists under a key. Callers may write there, too: what is no list of ids has none."""
    listed: Any = (marks or {}).get(key)
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []  # pyright: ignore[reportUnknownVariableType]
