"""Whether a turn has to wait: calls beside those that were answered, and agents further down that wait."""

from __future__ import annotations

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import Progress
from flowloom.context.protocols import AnyAgent
from flowloom.events.event import Event
from flowloom.events.requests import looks_like_request
from flowloom.log.ledger import Place
from flowloom.log.marks import is_from_agent_tool


def awaits_more(ctx: InvocationContext, progress: Progress) -> bool:
    """Whether a call beside those that the user's message answers has no result yet, and the message says no more.

    Words of the user do not wait; but the agents as tools that were called since do not either.
    """
    run = ctx.run
    waiting_calls = run.waiting_calls
    if not waiting_calls:
        return False
    words = _says_more(progress.message or run.user_content)
    for event in reversed(run.session.events):
        if event.invocation_id != run.invocation_id:
            continue
        if words and event.author == "user" and not is_from_agent_tool(event):
            return False
        made = _tool_calls(event, ctx)
        if made:
            waiting = [waiting_calls[call_id] for call_id in made & waiting_calls.keys()]
            return any(
                call.suspended or not (call.answers or (words and not call.is_of_stopped_run)) for call in waiting
            )
    return False


def _says_more(message: types.Content | None) -> bool:
    """Whether a message says anything beside the results of calls."""
    return message is not None and any(part.function_response is None for part in message.parts or ())


def _tool_calls(event: Event, ctx: InvocationContext) -> set[str]:
    """The ids of the calls that `ctx.agent` makes in an event, but for requests to people."""
    if not ctx.place.holds(Place.of(event)):
        return set()
    return {call.id or "" for call in event.get_function_calls() if not looks_like_request(event, call)}


def has_agent(agent: AnyAgent, name: str) -> bool:
    """Whether an agent, or one below it, has that name."""
    return agent.name == name or any(has_agent(child, name) for child in agent.sub_agents)
