"""The calls of an agent that an earlier run of the invocation has left without a result (decision 28)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import at_place, tells_of_end
from flowloom.context.protocols import RunnableTool
from flowloom.events.actions import EventActions
from flowloom.events.event import Event
from flowloom.events.parts import content_of, response_part
from flowloom.sessions.history import is_hidden
from flowloom.tools.confirmation import follow_ups
from flowloom.tools.delegation import DelegateTool
from flowloom.tools.pending import read_call

REPEATED = "repeated_calls"
"""The key of an event's `agent_state` that names calls which are about to be made a second time."""

_TWICE = (
    "This call was interrupted twice. Whether it took effect is not known, and it is not made again: find out, or ask."
)


@dataclass(slots=True)
class Unfinished:
    """What there is to do: events to yield first, and calls to run."""

    events: list[Event] = field(default_factory=list[Event])
    calls: list[types.FunctionCall] = field(default_factory=list[types.FunctionCall])


def unfinished_calls(ctx: InvocationContext) -> Unfinished | None:
    """What the agent's latest answer has called, and nobody has answered; or what should have followed its results.

    Calls that wait stay as they are: long-running ones, and agents as tools whose own questions are open. A call of a
    tool that is not idempotent is made once more at most: an event says so before it is.
    """
    run = ctx.run
    own = [e for e in run.session.events if e.author == ctx.agent.name and e.invocation_id == run.invocation_id]
    own = [event for event in own if at_place(event, ctx) and not tells_of_end(event)]
    index = next((i for i in range(len(own) - 1, -1, -1) if _tool_calls(own[i])), None)
    if index is None:
        return None
    asked, later = own[index], own[index + 1 :]
    answered = {r.id for event in run.session.events for r in event.get_function_responses()}
    tools = {tool.name: tool for tool in ctx.tools or ()}
    asked_about = {call.id for event in later for call in _original_calls(event)}  # people decide about them
    calls = [
        call
        for call in _tool_calls(asked)
        if call.id not in answered and call.id not in asked_about and not _waits(ctx, call, asked, tools)
    ]
    result = Unfinished()
    if not calls:
        results = later[-1] if later and later[-1].get_function_responses() else None
        if results is not None:
            result.events = follow_ups(ctx, _parts(asked), results)
        return result if result.events else None
    if _paused_by_host(asked, tools):
        result.calls = calls  # they have never been made
        return result
    return made_again(ctx, calls, own)


def made_again(ctx: InvocationContext, calls: Sequence[types.FunctionCall], own: Sequence[Event]) -> Unfinished:
    """Calls that were perhaps made before: those of tools that are not idempotent are marked, and refused if they were.

    `own` are the agent's events.
    """
    tools = {tool.name: tool for tool in ctx.tools or ()}
    repeated = {call for event in own for call in (event.actions.agent_state or {}).get(REPEATED, ())}
    once_only = [c for c in calls if (tool := tools.get(c.name or "")) is not None and not tool.idempotent]
    given_up = [call for call in once_only if call.id in repeated]
    result = Unfinished(calls=[call for call in calls if call not in given_up])
    marked = [call.id for call in once_only if call not in given_up]
    if marked:
        result.events.append(ctx.new_event({"actions": EventActions.unvalidated({"agent_state": {REPEATED: marked}})}))
    if given_up:
        parts = [response_part(call.id, call.name, {"error": _TWICE}) for call in given_up]
        result.events.append(ctx.new_event({"content": content_of("user", parts)}))
    return result


def _parts(event: Event) -> Sequence[types.Part]:
    return (event.content.parts if event.content is not None else None) or ()


def _tool_calls(event: Event) -> list[types.FunctionCall]:
    return [call for call in event.get_function_calls() if call.id and not is_hidden(call)]


def _original_calls(event: Event) -> list[types.FunctionCall]:
    """The calls that an event asks people about."""
    found = (read_call((call.args or {}).get("originalFunctionCall")) for call in event.get_function_calls())
    return [call for call in found if call is not None]


def _waits(ctx: InvocationContext, call: types.FunctionCall, asked: Event, tools: dict[str, RunnableTool]) -> bool:
    """Whether somebody else answers the call: the user, a sub-agent that was delegated to, or an agent that waits."""
    tool = tools.get(call.name or "")
    if isinstance(tool, DelegateTool):
        return True
    waiting = ctx.run.waiting_calls.get(call.id or "")
    if waiting is not None and waiting.suspended:
        return ctx.run.progress is None or not ctx.run.progress.was_answered(call.id or "")
    return tool is not None and tool.is_long_running and (call.id or "") in (asked.long_running_tool_ids or ())


def _paused_by_host(asked: Event, tools: dict[str, RunnableTool]) -> bool:
    """Whether the run stopped before the calls of this answer (`RunConfig.pause_on_tool_calls`)."""
    waiting = asked.long_running_tool_ids or ()
    return any(
        call.id in waiting and (tool := tools.get(call.name or "")) is not None and not tool.is_long_running
        for call in _tool_calls(asked)
    )
