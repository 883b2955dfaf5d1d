"""Whether a turn has to wait: calls beside those that were answered, and agents further down that wait."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.context.progress import at_place
from flowloom.context.protocols import AnyAgent
from flowloom.sessions.history import is_hidden


def awaits_more(ctx: InvocationContext) -> bool:
    """Whether the user's message is nothing but answers, and a call beside those it answers has no result yet."""
    run = ctx.run
    if run.progress is None or not run.waiting_calls:
        return False
    message = run.progress.message or run.user_content
    if any(part.function_response is None for part in (message and message.parts) or ()):
        return False
    for event in reversed(run.session.events):
        calls = event.get_function_calls() if event.author == ctx.agent.name and at_place(event, ctx) else []
        waiting = {call.id for call in calls if not is_hidden(call)} & run.waiting_calls.keys()
        if waiting:
            return bool(waiting - {r.id for each in run.session.events for r in each.get_function_responses()})
        if any(not is_hidden(call) for call in calls):
            return False
    return False


def has_agent(agent: AnyAgent, name: str) -> bool:
    """Whether an agent, or one below it, has that name."""
    return agent.name == name or any(has_agent(child, name) for child in agent.sub_agents)
