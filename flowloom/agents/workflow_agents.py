"""Agents that run others in a fixed order: `SequentialAgent`, `LoopAgent` (spec §17.6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from flowloom.agents.base_agent import BaseAgent
from flowloom.agents.parallel_agent import ParallelAgent
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


def waits(member: BaseAgent, ctx: InvocationContext) -> bool:
    """Whether a call of the member, or of an agent below it, waits for an answer of the user."""
    calls = ctx.run.waiting_calls.values()
    return any(member.find_agent(call.author) is not None for call in calls)


class SequentialAgent(BaseAgent):
    """Runs its sub-agents once each, in order.

    A member that waits for a person or a long-running tool stops the sequence; when the answer is there, it goes
    on in that member. A member that escalates ends the sequence only in a parallel branch (decision 33).
    """

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for child in self.sub_agents[member_to_resume(self, ctx) :]:
            below = ctx.below(child)
            async with aclosing(child.run_async(below)) as events:
                async for event in events:
                    yield event
            ctx.branch_ended = bool(ctx.branch) and _ends_branch(child, below)
            if ctx.branch_ended or waits(child, ctx):
                return


def _ends_branch(member: BaseAgent, ctx: InvocationContext) -> bool:
    """Whether a member's escalation is the branch's: one in a loop has ended that loop."""
    if isinstance(member, SequentialAgent):
        return ctx.branch_ended
    return ctx.escalated and not isinstance(member, LoopAgent | ParallelAgent)


class LoopAgent(BaseAgent):
    """Runs its sub-agents in order, again and again, until one escalates or `max_iterations` rounds are done.

    A member that escalates finishes its turn first. None means without limit, 0 that nothing runs. Raises
    `ConfigurationError` for a negative number.
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
            below = ctx.below(child)
            async with aclosing(child.run_async(below)) as events:
                async for event in events:
                    yield event
            if below.escalated or waits(child, ctx):
                return

    def _members(self, ctx: InvocationContext) -> Iterator[BaseAgent]:
        """Whose turn it is, round by round."""
        first, rounds = member_to_resume(self, ctx), 0
        while self.sub_agents and (self.max_iterations is None or rounds < self.max_iterations):
            yield from self.sub_agents[first:]
            first, rounds = 0, rounds + 1
