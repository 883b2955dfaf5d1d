"""`ModelOverride`: another model answers, and no agent is changed for it."""

from __future__ import annotations

from collections.abc import Callable

from google.genai import types

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.context import Context, InvocationContext
from flowloom.models import BaseLlm
from flowloom.plugins.base_plugin import BasePlugin


class ModelOverride(BasePlugin):
    """Lets `model` answer for all agents of a run, or for those whose own model `replaces` picks.

    `replaces` is given the model that would answer: that of the agent, or of the nearest agent above that has one;
    None if there is none. Both are attributes; what they are set to counts for the agents that begin after that.
    """

    def __init__(
        self, model: BaseLlm, *, replaces: Callable[[BaseLlm | None], bool] | None = None, name: str = "model_override"
    ) -> None:
        super().__init__(name)
        self.model = model
        self.replaces = replaces

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        invocation_context.run.models += (self._choose,)

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: Context) -> types.Content | None:
        ctx = callback_context.invocation_context
        ctx.model = self._choose(ctx) or ctx.model

    def _choose(self, ctx: InvocationContext) -> BaseLlm | None:
        if self.replaces is None:
            return self.model
        lineage = (ctx.agent, *reversed(ctx.lineage))
        own = next((m for a in lineage if isinstance(a, LlmAgent) and (m := a.own_model) is not None), None)
        return self.model if self.replaces(own) else None
