"""Where control goes: the agent that a transfer names (spec §2.9, decision 5)."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.errors import AgentNotFoundError, closest_first, quoted_list
from flowloom.processors.agent_transfer import transfer_targets


def place_of_target(ctx: InvocationContext, name: str) -> InvocationContext:
    """The place of the agent that `ctx.agent` hands over to.

    Raises `AgentNotFoundError` for one out of reach (decision 5).
    """
    assert ctx.llm_agent is not None
    targets = transfer_targets(ctx.llm_agent, ctx.parent)
    target = targets.get(name)
    if target is None:
        names = quoted_list(closest_first(name, targets))
        raise AgentNotFoundError(
            f"Agent `{ctx.agent.name}` cannot hand over to `{name}`. It reaches: {names}. Add it to `sub_agents`, or "
            f"allow the transfer."
        )
    if any(child is target for child in ctx.agent.sub_agents):
        return ctx.below(target)
    return ctx.at(target, ctx.lineage[:-1] if target is ctx.parent else ctx.lineage)
