"""Whether a turn has to wait: calls beside those that were answered, and agents further down that wait."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.context.progress import at_place, is_from_agent_tool
from flowloom.context.protocols import AnyAgent
from flowloom.events.requests import looks_like_request


def awaits_more(ctx: InvocationContext) -> bool:
    """Whether a call beside those that the user's message answers has no result yet, and the message says no more.

    Words of the user do not wait; but the agents as tools that were called since do not either.
    """
    run = ctx.run
    if run.progress is None or not (waiting_calls := run.waiting_calls):
        return False
    message = run.progress.message or run.user_content
    words = any(part.function_response is None for part in (message and message.parts) or ())
    for event in reversed(run.session.events):
        if event.invocation_id != run.invocation_id:
            continue
        if words and event.author == "user" and not is_from_agent_tool(event):
            return False
        calls = event.get_function_calls() if event.author == ctx.agent.name and at_place(event, ctx) else []
        asked = {call.id or "" for call in calls if not looks_like_request(event, call)}
        waiting = [waiting_calls[call_id] for call_id in asked & waiting_calls.keys()]
        waiting = [made for made in waiting if not words or made.suspended]
        if waiting:
            return any(not made.answers for made in waiting)
        if any(not looks_like_request(event, call) for call in calls):
            return False
    return False


def has_agent(agent: AnyAgent, name: str) -> bool:
    """Whether an agent, or one below it, has that name."""
    return agent.name == name or any(has_agent(child, name) for child in agent.sub_agents)
