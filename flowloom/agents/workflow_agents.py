"""Agents that run others in a fixed order: `SequentialAgent`, `LoopAgent` (spec §17.6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from flowloom.agents.base_agent import BaseAgent
from flowloom.agents.parallel_agent import ParallelAgent
from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError
from flowloom.events.event import Event


def member_to_resume(agent: BaseAgent, ctx: InvocationContext, path: str) -> tuple[int, int] | None:
    """Index and turn of the member that an earlier run of the invocation was in (decision 28); None if in none.

    Node paths tell. A log of another engine may not have them; then the author of its latest event does.
    """
    progress = ctx.run.progress
    if progress is None or not ctx.taken_up:
        return None
    member = progress.latest_member(path)
    if member is not None:
        names = [child.name for child in agent.sub_agents]
        return (names.index(member[0]), member[1]) if member[0] in names else None
    for event in reversed(progress.events):
        if event.author != "user" and (event.branch or None) == (ctx.branch or None):
            for index, child in enumerate(agent.sub_agents):
                if child.find_agent(event.author) is not None:
                    return index, 1
    return None


def waits(member: BaseAgent, ctx: InvocationContext) -> bool:
    """Whether nothing may follow the member: the run stops, or a call of it, or of an agent below it, waits for the
    user."""
    if ctx.run.stopped:
        return True
    calls = ctx.run.waiting_calls.values()
    return any(member.find_agent(call.author) is not None for call in calls)


class SequentialAgent(BaseAgent):
    """Runs its sub-agents once each, in order.

    A member that waits for a person or a long-running tool stops the sequence; when the answer is there, it goes
    on in that member. A member that escalates ends the sequence only in a parallel branch (decision 33).
    """

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        path = ctx.workflow_path()
        taken_up = member_to_resume(self, ctx, path)
        first = 0 if taken_up is None else taken_up[0]
        for index, child in enumerate(self.sub_agents[first:], first):
            below = ctx.member(child, path)
            below.taken_up = taken_up is not None and index == first
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

    def _when_made(self) -> None:
        super()._when_made()
        if self.max_iterations is not None and self.max_iterations < 0:
            raise ConfigurationError(
                f"Loop `{self.name}`: `max_iterations` is {self.max_iterations}; use None for no limit, or 0 or more."
            )

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        path = ctx.workflow_path()
        taken_up = member_to_resume(self, ctx, path)
        index, turn = taken_up or (0, 1)
        while self.sub_agents and (self.max_iterations is None or turn <= self.max_iterations):
            child = self.sub_agents[index]
            below = ctx.member(child, path, turn)
            below.taken_up, taken_up = taken_up is not None, None
            async with aclosing(child.run_async(below)) as events:
                async for event in events:
                    yield event
            if below.escalated or waits(child, ctx):
                return
            index += 1
            if index == len(self.sub_agents):
                index, turn = 0, turn + 1
