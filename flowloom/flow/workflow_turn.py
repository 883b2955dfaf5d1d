"""`WorkflowTurn`: the turn of an agent that runs others in an order of its own (spec §17.6, §17.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowloom.context import InvocationContext
from flowloom.context.ending import all_ended
from flowloom.context.protocols import AnyAgent, AnyWorkflowAgent
from flowloom.errors import AgentNotFoundError
from flowloom.events.event import Event
from flowloom.flow.play import run_agent
from flowloom.flow.turn import AGAIN, Enter, Events, Turn, waits_below
from flowloom.flow.waiting import has_agent

if TYPE_CHECKING:
    from flowloom.telemetry import Recorder

_Queue = asyncio.Queue["tuple[Event, asyncio.Event] | asyncio.Task[None]"]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a workflow whose turn is over."""

    agent: AnyAgent
    index: int
    """Where it stands in `sub_agents`; of several at once, the last one."""
    number: int
    """Which round of the workflow it was in, counted from 1: a new one begins where the order of the members does not
    go on."""
    escalated: bool
    """Whether an event of the turn escalated."""


class WorkflowTurn(Turn):
    """Enters the members of a workflow, as `WorkflowAgent.following` says; several at once on branches of their own.

    A member that waits stops the workflow. When the answer is there, the member that the log tells of goes on.
    """

    _path: str | None = None
    """The node path of this turn of the workflow, `flow@1`."""
    _latest: Member | None = None
    """The member whose turn was the last."""
    _entered: int = 1
    """The number of the member that was entered last."""
    _branch_ended: bool = False
    """Whether an escalation ended the workflow, and with it the parallel branch that it is in (decision 33)."""

    def __init__(self, ctx: InvocationContext, workflow: AnyWorkflowAgent, *, alone: bool = False) -> None:
        super().__init__(ctx)
        self.workflow = workflow
        self.bare = alone

    @property
    def ends_branch(self) -> bool:
        return self._branch_ended

    async def step(self, spans: Recorder | None) -> Events:
        following, resumed = self._following()
        if following is None:
            self.end_or_wait()
        elif not isinstance(following, Sequence):
            number = resumed or self._number_of(following)
            self._entered = number
            self.outcome = Enter(self._place_of(following, number, resumed=resumed is not None))
        else:
            number = resumed or self._number_of(following[0])
            places = [self._place_of(agent, number, resumed=resumed is not None, own=True) for agent in following]
            async with aclosing(_at_once(self.agent, places)) as events:
                async for event in events:
                    yield self.note(event)
            self._latest = self._member(following[-1], number, any(place.escalated for place in places))
            if any(waits_below(agent, self.ctx) for agent in following):
                self.end_or_wait()

    def returned(self, below: Turn) -> Iterable[Event]:
        self.last = below.last or self.last
        self.ctx.escalated = self.ctx.escalated or below.ctx.escalated
        self._latest = self._member(below.agent, self._entered, below.ctx.escalated)
        self._branch_ended = bool(self.ctx.branch) and below.ends_branch and not self.workflow.contains_escalation
        self.outcome = AGAIN
        if self._branch_ended or waits_below(below.agent, self.ctx):
            self.end_or_wait()
        return ()

    def _following(self) -> tuple[AnyAgent | Sequence[AnyAgent] | None, int | None]:
        """Who is next; and the number of the member that an earlier run was in, if that is to go on."""
        first, ctx = self._path is None, self.ctx
        if first:
            self._path = ctx.workflow_path()
        resumed = self._member_to_resume(self._path or "") if first and ctx.resumed else None
        if resumed is None:
            return self.workflow.following(self._latest, ctx), None
        agent, number = resumed
        latest: Member | None = None
        for _ in self.agent.sub_agents:  # was it one of several at once?
            following = self.workflow.following(latest, ctx)
            if following is None:
                break
            several = following if isinstance(following, Sequence) else (following,)
            if agent in several:
                return following, number
            latest = self._member(several[-1], number, False)
        return agent, number

    def _member_to_resume(self, path: str) -> tuple[AnyAgent, int] | None:
        """The member that an earlier run of the invocation was in, and its number (decision 28); None if in none.

        Node paths tell. A log of another engine may not have them; then the author of its latest event does.
        """
        progress, ctx = self.ctx.run.progress, self.ctx
        if progress is None:
            return None
        found = progress.latest_member(path)
        if found is not None:
            return next(((agent, found[1]) for agent in self.agent.sub_agents if agent.name == found[0]), None)
        for event in reversed(progress.events):
            if event.author != "user" and (event.branch or None) == (ctx.branch or None):
                for agent in self.agent.sub_agents:
                    if has_agent(agent, event.author):
                        return agent, 1
        return None

    def _member(self, agent: AnyAgent, number: int, escalated: bool) -> Member:
        return Member(agent, self._index_of(agent), number, escalated)

    def _index_of(self, agent: AnyAgent) -> int:
        for index, member in enumerate(self.agent.sub_agents):
            if member is agent:
                return index
        raise AgentNotFoundError(
            f"Workflow `{self.agent.name}` names `{agent.name}` as the agent to follow, which is none of its "
            f"`sub_agents`. Add it there."
        )

    def _number_of(self, agent: AnyAgent) -> int:
        """The round that a member is in: another one begins where the order of the members does not go on."""
        index, latest = self._index_of(agent), self._latest
        return 1 if latest is None else latest.number + (index <= latest.index)

    def _place_of(self, agent: AnyAgent, number: int, *, resumed: bool, own: bool = False) -> InvocationContext:
        """The place of a member, on a branch of its `own` if several run at once."""
        place = self.ctx.member(agent, self._path or "", number)
        place.resumed = resumed
        if own:
            leaf = f"{self.agent.name}.{agent.name}"
            place.branch = f"{place.branch}.{leaf}" if place.branch else leaf
        return place


async def _at_once(workflow: AnyAgent, places: Sequence[InvocationContext]) -> Events:
    """The events of several agents that run at the same time.

    An agent goes on only when its event has been recorded, so that it sees its own history. The first error cancels
    the others; it is raised when they have ended.
    """
    events: _Queue = asyncio.Queue()
    tasks = [asyncio.create_task(_put_events(workflow, place, events)) for place in places]
    for task in tasks:
        task.add_done_callback(events.put_nowait)
    running = len(tasks)
    try:
        while running:
            item = await events.get()
            if isinstance(item, asyncio.Task):
                running -= 1
                item.result()
                continue
            event, taken = item
            yield event
            taken.set()
    finally:
        for task in tasks:
            task.cancel()
        await all_ended(tasks)


async def _put_events(workflow: AnyAgent, place: InvocationContext, events: _Queue) -> None:
    try:
        async with aclosing(run_agent(place)) as stream:
            async for event in stream:
                taken = asyncio.Event()
                events.put_nowait((event, taken))
                await taken.wait()
    except Exception as error:
        error.add_note(f"in branch `{place.agent.name}` of parallel agent `{workflow.name}`")
        raise
