"""Which model answers for an agent."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.context.protocols import as_llm_agent
from flowloom.errors import ModelNotConfiguredError
from flowloom.models.base_llm import BaseLlm


def model_of(ctx: InvocationContext) -> BaseLlm:
    """The agent's own model, or that of the nearest agent above it that has one.

    Raises `ModelNotConfiguredError` if there is none (spec §2.1).
    """
    if ctx.model is not None:
        return ctx.model
    for agent in (ctx.agent, *reversed(ctx.lineage)):
        llm_agent = as_llm_agent(agent)
        model = None if llm_agent is None else llm_agent.own_model
        if model is not None:
            ctx.model = model
            return model
    raise ModelNotConfiguredError(
        f"Agent `{ctx.agent.name}` has no model, and no agent above it has one. Set `model` to a model's name or to "
        f"a `BaseLlm`."
    )
