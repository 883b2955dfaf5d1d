"""Agents that run others in a fixed order: `SequentialAgent`, `LoopAgent` (spec §17.6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any

from flowloom.agents.base_agent import BaseAgent
from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError
from flowloom.events.event import Event


def member_to_resume(agent: BaseAgent, ctx: InvocationContext) -> int:
    """The index of the member whose pending call the user has answered (decision 28); 0 if there is none."""
    authors = ctx.run.resume_authors
    if authors:
        for index, child in enumerate(agent.sub_agents):
            if any(child.find_agent(name) is not None for name in authors):
                return index
    return 0


class SequentialAgent(BaseAgent):
    """Runs its sub-agents once each, in order.

    A member that waits for a person or a long-running tool stops the sequence; when the answer is there, it goes
    on in that member.
    """

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for child in self.sub_agents[member_to_resume(self, ctx) :]:
            member = _Member()
            events = child.run_async(ctx.below(child))
            try:
                async for event in events:
                    member.note(event)
                    yield event
            finally:
                await events.aclose()
            if member.waits:
                return


class LoopAgent(BaseAgent):
    """Runs its sub-agents in order, again and again, until one escalates or `max_iterations` rounds are done.

    A member that escalates finishes its turn first. None means without limit, 0 that nothing runs. Raises
    `ConfigurationError` for a negative number, and for no limit without sub-agents.
    """

    max_iterations: int | None = None

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        if self.max_iterations is not None and self.max_iterations < 0:
            raise ConfigurationError(
                f"Loop `{self.name}`: `max_iterations` is {self.max_iterations}; use None for no limit, or 0 or more."
            )

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for child in self._members(ctx):
            member = _Member()
            events = child.run_async(ctx.below(child))
            try:
                async for event in events:
                    member.note(event)
                    yield event
            finally:
                await events.aclose()
            if member.escalated or member.waits:
                return

    def _members(self, ctx: InvocationContext) -> Iterator[BaseAgent]:
        """Whose turn it is, round by round."""
        first, rounds = member_to_resume(self, ctx), 0
        while self.sub_agents and (self.max_iterations is None or rounds < self.max_iterations):
            yield from self.sub_agents[first:]
            first, rounds = 0, rounds + 1


class _Member:
    """What a member's turn has come to so far."""

    __slots__ = ("escalated", "waits")

    def __init__(self) -> None:
        self.escalated = False
        self.waits = False

    def note(self, event: Event) -> None:
        if event.partial:
            return
        self.escalated = self.escalated or bool(event.actions.escalate)
        self.waits = bool(event.long_running_tool_ids)
