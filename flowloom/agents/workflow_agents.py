"""Agents that run others in an order of their own: `SequentialAgent`, `LoopAgent`, `ParallelAgent` (spec §17.6, §17.7).

A workflow of another kind is a `WorkflowAgent` that says, by `following`, which member comes next.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import ClassVar

from flowloom.agents.base_agent import BaseAgent
from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError
from flowloom.events.event import Event
from flowloom.flow import run_agent
from flowloom.flow.turn import BodyTurn, Turn
from flowloom.flow.workflow_turn import FinishedMember, WorkflowTurn


class WorkflowAgent(BaseAgent):
    """Runs its sub-agents, in an order that `following` gives. Derive from it for a workflow of your own.

    A member that waits for a person, a client or a long-running tool pauses the workflow; the answer resumes it in that
    member, also in another process. Branches, node paths and escalation are kept for you.

    A class that overrides `_run_async_impl` instead is a custom agent: it runs from its start again when it is resumed.
    """

    contains_escalation: ClassVar[bool] = False
    """Whether a member's escalation ends this workflow only, and not the parallel branch that it stands in."""

    def following(
        self, latest: FinishedMember | None, ctx: InvocationContext
    ) -> BaseAgent | Sequence[BaseAgent] | None:
        """Which of `sub_agents` comes after the member whose turn was the `latest` (None at the beginning).

        A list of agents runs at once, each on a branch of its own; `latest` is then the one of them that stands last in
        `sub_agents`. None, or an empty list, ends the workflow. It is asked between two turns, also of a run that is
        resumed: decide by `latest` and `ctx` alone, and keep nothing in the agent. `ctx.user_content` is the message of
        this run, which may be a person's answer to a member.

        What it raises fails the run, with a note that names the workflow. Another agent than a member is an
        `AgentNotFoundError`, and one that is in the list twice a `DuplicateAgentError`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say which member comes next: override `following`.")

    def turn(self, ctx: InvocationContext) -> Turn:
        own_body = type(self)._run_async_impl is not WorkflowAgent._run_async_impl
        return BodyTurn(ctx) if own_body else WorkflowTurn(ctx, self)

    def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        return run_agent(ctx, lambda inner: WorkflowTurn(inner, self))


class SequentialAgent(WorkflowAgent):
    """Runs its sub-agents once each, in order.

    A member that waits for a person or a long-running tool pauses the sequence; the answer resumes it in that member.
    A member that escalates ends the sequence only in a parallel branch (decision 33).
    """

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> BaseAgent | None:
        index = 0 if latest is None else latest.index + 1
        return self.sub_agents[index] if index < len(self.sub_agents) else None


class LoopAgent(WorkflowAgent):
    """Runs its sub-agents in order, again and again, until one escalates or `max_iterations` rounds are done.

    A member that escalates finishes its turn first. None means without limit, 0 that nothing runs. Raises
    `ConfigurationError` for a negative number.
    """

    contains_escalation = True
    max_iterations: int | None = None

    def _when_made(self) -> None:
        super()._when_made()
        if self.max_iterations is not None and self.max_iterations < 0:
            raise ConfigurationError(
                f"Loop `{self.name}`: `max_iterations` is {self.max_iterations}; use None for no limit, or 0 or more."
            )

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> BaseAgent | None:
        members, index, number = self.sub_agents, 0, 1
        if latest is not None:
            rounds, index = divmod(latest.index + 1, len(members))
            number = latest.number + rounds
            if latest.escalated:
                return None
        if not members or (self.max_iterations is not None and number > self.max_iterations):
            return None
        return members[index]


class ParallelAgent(WorkflowAgent):
    """Runs its sub-agents at the same time; they do not see each other's events.

    A member continues only after its event is recorded, so that it sees its own history. The first error
    cancels the others; it is raised when they have ended. A member that escalates ends its own branch only; the others
    finish, and a loop around them then ends (decision 33).
    """

    contains_escalation = True

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Sequence[BaseAgent] | None:
        return self.sub_agents if latest is None and self.sub_agents else None
