"""`WorkflowTurn`: the turn of an agent that runs others in an order of its own (spec §17.6, §17.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom.context import InvocationContext
from flowloom.context.ending import all_of
from flowloom.context.origin import note_origin
from flowloom.context.progress import Progress, is_within, path_of
from flowloom.context.protocols import AnyAgent, AnyWorkflowAgent
from flowloom.errors import AgentNotFoundError, DuplicateAgentError, quoted_list
from flowloom.events.event import Event
from flowloom.flow.outbox import Outbox, forwarding, put_events
from flowloom.flow.play import run_agent
from flowloom.flow.turn import Enter, Events, Turn, waits_below
from flowloom.flow.waiting import has_agent
from flowloom.log.marks import is_from_agent_tool

if TYPE_CHECKING:
    from flowloom.telemetry import Recorder

_Members = tuple[Sequence[AnyAgent], bool]
"""Members of a workflow, and whether they run at once, on branches of their own."""


@dataclass(frozen=True, slots=True)
class FinishedMember:
    """A member of a workflow whose turn is over."""

    agent: AnyAgent
    index: int
    """Where it stands in `sub_agents`."""
    number: int
    """Which round of the workflow it was in, counted from 1. A new one begins with a member that does not stand behind
    those before it in `sub_agents`, and with members that run at once after others that did."""
    escalated: bool
    """Whether an event of the turn escalated; of several at once, whether one of any turn did."""


class _Entry(NamedTuple):
    """An event of the log, with the member that it belongs to and the round that this was in."""

    agent: AnyAgent
    number: int
    event: Event


class WorkflowTurn(Turn):
    """Enters the members of a workflow, as `WorkflowAgent.following` says; several at once on branches of their own.

    A member that waits stops the workflow. When the answer is there, the member that the log tells of goes on; those
    that ran at once with it do, too.
    """

    _path: str = ""
    """The node path of this turn of the workflow, `flow@1`."""
    _latest: FinishedMember | None = None
    """The member whose turn was the last."""
    _number: int = 1
    """The round of the members that were entered last."""
    _reached: int = -1
    """The highest index of those that were entered in this round."""
    _group: bool = False
    """Whether those that were entered last run at once."""
    _log: Sequence[_Entry] = ()
    """What the members of this turn said in earlier runs of the invocation, if it resumes one."""
    _end: int = 0
    """Where in the log the member ends that goes on; those behind it had begun if it is answered again."""
    _branch_ended: bool = False
    """Whether an escalation ended the workflow, and with it the parallel branch that it is in (decision 33)."""

    def __init__(self, ctx: InvocationContext, workflow: AnyWorkflowAgent) -> None:
        super().__init__(ctx)
        self.workflow = workflow

    @property
    def ends_branch(self) -> bool:
        return self._branch_ended

    async def step(self, spans: Recorder | None) -> Events:
        self._path = self._path or self.ctx.workflow_path()
        resumed = self._to_resume() if self._latest is None and self._log else None
        members, at_once = resumed or self._following()
        if not members:
            self.end_or_wait()
            return
        if resumed is None:
            self._count(members, at_once)
        places = [self._place_of(agent, resumed=resumed is not None, own=at_once) for agent in members]
        if not at_once:
            self.outcome = Enter(places[0])
            return
        outbox = Outbox()
        running, events = forwarding(all_of([_run_beside(place, outbox) for place in places]), outbox)
        async with aclosing(events):
            async for event in events:
                yield self.note(event)
        await running
        self._finished(max(members, key=self._index_of), any(place.escalated for place in places))
        if any(waits_below(agent, self.ctx) for agent in members):
            self.end_or_wait()

    def returned(self, below: Turn) -> Iterable[Event]:
        self.last = below.last or self.last
        self._finished(below.agent, below.ctx.escalated)
        self._branch_ended = bool(self.ctx.branch) and below.ends_branch and not self.workflow.contains_escalation
        if self._branch_ended or waits_below(below.agent, self.ctx):
            self.end_or_wait()
        return ()

    def _finished(self, agent: AnyAgent, escalated: bool) -> None:
        """Note that the turn of a member is over; of several at once, that of the last one in `sub_agents`: the log
        tells neither in which order they were named nor, if they go on, in which they ended."""
        self.ctx.escalated = self.ctx.escalated or escalated
        self._latest = FinishedMember(agent, self._index_of(agent), self._number, escalated)

    # -- which member is next ---------------------------------------------------------------------

    def _following(self) -> _Members:
        """The members that come next, as the workflow says; none at its end."""
        try:
            following = self.workflow.following(self._latest, self.ctx)
        except Exception as error:
            note_origin(error, self.ctx, "`following`")
            raise
        at_once = isinstance(following, Sequence) and not isinstance(following, str)
        members: Any = following if at_once else () if following is None else (following,)
        if len({self._index_of(agent) for agent in members}) < len(members):
            raise DuplicateAgentError(
                f"`following` of workflow `{self.agent.name}` names an agent twice, to run at the same time: "
                f"{quoted_list(agent.name for agent in members)}. Name each one once."
            )
        return members, at_once

    def _index_of(self, agent: AnyAgent) -> int:
        for index, member in enumerate(self.agent.sub_agents):
            if member is agent:
                return index
        raise AgentNotFoundError(
            f"`following` of workflow `{self.agent.name}` answers `{getattr(agent, 'name', agent)}`, which is none of "
            f"its `sub_agents`: {quoted_list(member.name for member in self.agent.sub_agents)}. It answers one of "
            f"them, a list of them, or None."
        )

    def _count(self, members: Sequence[AnyAgent], at_once: bool) -> None:
        """Note the round that members are in."""
        indexes = [self._index_of(agent) for agent in members]
        self._number += min(indexes) <= self._reached or (self._group and at_once)
        self._reached, self._group = max(indexes), at_once

    def _place_of(self, agent: AnyAgent, *, resumed: bool, own: bool) -> InvocationContext:
        """The place of a member, on a branch of its `own` if it does not run alone."""
        place = self.ctx.member(agent, self._path, self._number)
        said = self._said_by((agent,))
        place.resumed = resumed or any(map(path_of, said))
        place.escalated = place.resumed and any(event.actions.escalate for event in said)
        if own:
            place.branch = self._branch_of(agent)
        return place

    def _branch_of(self, agent: AnyAgent) -> str:
        leaf = f"{self.agent.name}.{agent.name}"
        return f"{self.ctx.branch}.{leaf}" if self.ctx.branch else leaf

    # -- resuming ---------------------------------------------------------------------------------

    def recall(self, progress: Progress, own: Sequence[Event]) -> None:
        self._path = self.ctx.workflow_path()
        self._log = self._entries(progress)
        self._end = self._end_of_answered(progress)
        self.begun = progress.interrupted and bool(self._log)

    def inside(self, progress: Progress) -> Sequence[Event]:
        return [entry.event for entry in self._log]

    def _to_resume(self) -> _Members:
        """The member that an earlier run of the invocation was in, with those beside it (decision 28).

        The log tells who that is, whatever the workflow would say by now. Of several at once, it does not tell of those
        that had not said anything yet: the workflow is asked again what it was asked then.
        """
        log = self._log[: self._end]
        number, at_once, members = log[-1].number, self._beside_others(log[-1]), self._latest_in(log)
        if at_once:
            earlier = [entry for entry in log if entry.number != number or entry.agent not in members]
            if earlier:
                latest, self._number = self._latest_in(earlier), earlier[-1].number
                self._finished(latest[-1], any(event.actions.escalate for event in self._said_by(latest)))
            asked, _ = self._following()
            members = asked if set(members) <= set(asked) else members
        self._number, self._reached, self._group = number, max(map(self._index_of, members)), at_once
        return members, at_once

    def _entries(self, progress: Progress) -> list[_Entry]:
        """The events of the members so far. Of a log without node paths, as other engines write it, authors tell."""
        agents = {agent.name: agent for agent in self.agent.sub_agents}
        below = progress.below(self._path + "/")
        found = [_Entry(agents[name], number, event) for event, name, number in below if name in agents]
        return found or [
            _Entry(agent, 1, event)
            for event in progress.events
            if event.author != "user" and not path_of(event) and not is_from_agent_tool(event)
            for agent in agents.values()
            if has_agent(agent, event.author) and is_within(event.branch, self.ctx.branch)
        ]

    def _latest_in(self, log: Sequence[_Entry]) -> Sequence[AnyAgent]:
        """The member that the latest of these events belongs to; of several at once, all that said something."""
        return sorted({entry.agent for entry in log if self._with(entry, log[-1])}, key=self._index_of)

    def _with(self, entry: _Entry, other: _Entry) -> bool:
        """Whether two events are of the same turn of a member, or of members that ran at once."""
        same = entry.agent is other.agent or (self._beside_others(entry) and self._beside_others(other))
        return same and entry.number == other.number

    def _end_of_answered(self, progress: Progress) -> int:
        """Where in the log the member ends whose call the latest message answers, if nothing was said since; without
        one, the end of the log."""
        fresh, log = progress.message_at + 1 >= len(progress.events), self._log
        calls = [(call.id, entry) for entry in log if fresh for call in entry.event.get_function_calls()]
        asked = [entry for call_id, entry in calls if call_id in progress.answered]
        return max((at for at, entry in enumerate(log, 1) if asked and self._with(entry, asked[-1])), default=len(log))

    def _beside_others(self, entry: _Entry) -> bool:
        """Whether a member ran at once with others: it had a branch of its own."""
        return is_within(entry.event.branch, self._branch_of(entry.agent))

    def _said_by(self, members: Sequence[AnyAgent]) -> list[Event]:
        """What these members said in earlier runs, in the round that counts now."""
        return [entry.event for entry in self._log if entry.number == self._number and entry.agent in members]


async def _run_beside(place: InvocationContext, outbox: Outbox) -> None:
    """Run a member of a workflow that does not run alone."""
    try:
        await put_events(run_agent(place), outbox)
    except Exception as error:
        error.add_note(f"in branch `{place.agent.name}` of workflow `{place.lineage[-1].name}`")
        raise
