"""The keys of effects, and the effects that are what they are called (see `Effects`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from flowloom.context.protocols import RunnableTool
from flowloom.events.clock import now, sleep
from flowloom.events.ids import new_id
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest


class EffectKey(NamedTuple):
    """Names one effect within an invocation: `<agent path>/<step>/<kind>/<n>`. Stable public API.

    `path` is the agent's place in the tree, names joined by dots; `step` counts the agent's model steps in the
    invocation, from 0; `kind` is `model`, `tool`, `now`, `id` or `sleep`; `n` counts the effects of that kind in
    the step, from 0. For a tool it is the position of its call among those of the step; `attempt` counts the tries of
    that call, from 0, and ends the key from the second try on. What a call does itself (the agents that it runs, its
    ids and pauses) has keys below the call's, so that they do not depend on which of several calls is the quickest.
    """

    path: str
    step: int
    kind: str
    n: int
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.path}/{self.step}/{self.kind}/{self.n}{f'/{self.attempt}' if self.attempt else ''}"


class DirectEffects:
    """The default: does the thing."""

    def call_model(self, ctx: Any, model: BaseLlm, request: LlmRequest, stream: bool) -> AsyncIterator[LlmResponse]:
        """Ask the `model`, for the agent of `ctx`; with `stream`, partial responses come before the complete one.
        Raises what the model raises.
        """
        return model.generate_content_async(request, stream)

    async def call_tool(self, ctx: Any, tool: RunnableTool, args: dict[str, Any], context: Any) -> Any:
        """Run the `tool` with `args`, for the agent of `ctx`; `context` is that of the call. Raises what the tool
        raises.
        """
        return await tool.run_async(args=args, tool_context=context)

    def now(self, ctx: Any) -> float:
        """The time, in seconds since the epoch, for the agent of `ctx`."""
        return now()

    def new_id(self, ctx: Any) -> str:
        """An id that nothing else has, for the agent of `ctx`."""
        return new_id()

    async def sleep(self, ctx: Any, seconds: float) -> None:
        """Wait for so many `seconds`, in a run of the agent of `ctx`."""
        await sleep(seconds)


DIRECT_EFFECTS = DirectEffects()
