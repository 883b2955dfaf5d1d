"""`Progress`: how far an invocation got before this run took it up, as its events tell (resuming, decision 28)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from google.genai import types

from flowloom.context.protocols import AnyContext
from flowloom.errors import InvocationNotFoundError
from flowloom.events.event import Event
from flowloom.events.parts import content_of
from flowloom.events.wire import replace
from flowloom.log.answers import readable_answers, says_nothing
from flowloom.log.claims import Decision
from flowloom.log.ledger import CallLedger, CallRecord, Place
from flowloom.log.marks import AGENT_ENDED, is_from_agent_tool, tells_of_end

if TYPE_CHECKING:
    from flowloom.sessions import Session


class Progress:
    """The events of an invocation before this run, and what its latest message answers.

    Without a `message`, the run is `interrupted`: it goes on where another one stopped or was cut off. Work that was
    under way then is done again; what is in the log is not. If a decision in the log was not carried out, the message
    that made it counts as the latest.
    """

    __slots__ = ("_ledger", "answered", "events", "fresh", "interrupted", "left", "message_at")

    def __init__(self, ledger: CallLedger, invocation_id: str, message: types.Content | None = None) -> None:
        self._ledger, events = ledger, ledger.events_of(invocation_id)
        self.events = [event for event in events if event.author != "user" or not says_nothing(event.content)]
        self.interrupted = message is None
        if self.interrupted and self.events and AGENT_ENDED in (self.events[-1].custom_metadata or ()):
            del self.events[-1]  # an agent reached its limit and no agent went on since: now it may
        self.fresh = not self.interrupted
        """Whether no run has carried out yet what the latest message decides."""
        decided = ledger.decided(invocation_id)
        self.left = self._with_agents_around(made.id for made in decided)
        """The requests that were answered in vain so far, and the calls of the agents around them."""
        self.message_at = self._latest_message(decided) if self.interrupted else len(self.events)
        """Where the latest message of the user is; -1 if there is none."""
        self.answered = self.answered_by(message or self.message)
        """The calls that the latest message answers, and those of the agents around them."""
        if self.interrupted:  # an agent that runs as a tool has left something since: it has taken its answers
            since = self.events[self.message_at + 1 :]
            self.answered -= {event.isolation_scope for event in since if is_from_agent_tool(event)}

    def _latest_message(self, decided: Sequence[CallRecord]) -> int:
        """Where the latest message of the user is; the first one with a decision that was not carried out, if any."""
        if decided:
            messages = {made.answers[0].event.id for made in decided}
            return next((i for i, e in enumerate(self.events) if e.id in messages), -1)
        said = (i for i, e in enumerate(self.events) if e.author == "user" and not is_from_agent_tool(e))
        return max(said, default=-1)

    def answered_by(self, message: types.Content | None) -> set[str]:
        """The calls that a message answers, and those by which the agents around them were called."""
        return self._with_agents_around(answer.id for answer in readable_answers(message) if answer.id)

    def _with_agents_around(self, call_ids: Iterable[str]) -> set[str]:
        found = set(call_ids)
        for made in filter(None, map(self._ledger.call, [*found])):
            found.update(each.parent for each in (made, *self._ledger.around(made)) if each.parent)
        return found

    @property
    def message(self) -> types.Content | None:
        """The latest message of the user, if it is in the log."""
        return self.events[self.message_at].content if 0 <= self.message_at < len(self.events) else None

    def beginning_in(self, events: Sequence[Event]) -> int:
        """Where in a session's log the latest message is; without one, where the invocation begins."""
        first = self.events[max(self.message_at, 0)]
        return next(index for index in range(len(events) - 1, -1, -1) if events[index] is first)

    def own(self, ctx: AnyContext, start: int) -> tuple[list[Event], list[Event]]:
        """The events of `ctx.agent` at its place in the run: before the latest message of the user, and after it. What
        was cut off is none of them: it is to be done again.

        `start` is where in the log its turn has begun.
        """
        here, since = ctx.place, max(start, self.message_at + 1)

        def is_own(event: Event) -> bool:
            return here.holds(Place.of(event)) and not (tells_of_end(event) or event.interrupted)

        return [*filter(is_own, self.events[start:since])], [*filter(is_own, self.events[since:])]

    def was_answered(self, call_id: str) -> bool:
        """Whether a message answers this call, or one that an agent makes that runs as this tool: the latest one, or
        one whose answers were not carried out."""
        return call_id in self.answered or call_id in self.left

    # -- members of workflows ------------------------------------------------------------------------------------------

    def entries(self, path: str) -> int:
        """How often the node `path` was entered, its number left out."""
        name = path.rpartition("/")[2]
        return max((number for _, found, number in self.below(path) if found == name), default=0)

    def below(self, path: str) -> Iterator[tuple[Event, str, int]]:
        """The events of the members of a workflow, `flow@1/`, each with the name and the round of the member."""
        prefix = path.rpartition("/")[0] + "/" if "/" in path else ""
        for event in self.events:
            place = "" if is_from_agent_tool(event) else path_of(event)
            if place and place.startswith(prefix):
                name, _, number = place[len(prefix) :].partition("/")[0].rpartition("@")
                yield event, name, int(number) if number.isdecimal() else 1


def progress_of(session: Session, invocation_id: str, message: types.Content | None) -> Progress:
    """How far an invocation got. Raises `InvocationNotFoundError` if it is not there, or was rewound."""
    progress = Progress(session.history.ledger(session.events), invocation_id, message)
    if not progress.events:
        found = any(event.invocation_id == invocation_id for event in session.events)
        what = "was rewound" if found else "is not there"
        raise InvocationNotFoundError(
            f"Session `{session.id}` cannot resume invocation `{invocation_id}`, which {what}. Give the id of "
            f"one of its events, or a message to begin a new one.",
            invocation_id=invocation_id,
        )
    return progress


def latest_said(events: Sequence[Event]) -> Event | None:
    """The latest event that says something, or tells of an error; None if there is none."""
    return next((event for event in reversed(events) if event.content is not None or event.error_code), None)


def is_left_behind(ledger: CallLedger, decision: Decision) -> bool:
    """Whether a run was cut off before it carried out a decision that the log has, or an agent has spoken since."""
    made = decision.made
    if latest_said(ledger.events_of(made.event.invocation_id)) is decision.answer.event:
        return True
    return made.state == "decided" and ledger.call(made.id) is made


def without_others(session: Session, own: Collection[str]) -> Session:
    """A session as a run has to see it that is not alone in it: without what the messages of others have decided and
    what they are about to carry out. `own` are the ids of its own messages."""
    ledger = session.history.ledger(session.events)
    went_on: set[str] = set()  # the invocations in which an agent has said something since
    seen: list[Event] = []
    for event in reversed(session.events):
        parts = (event.content.parts if event.content is not None else None) or []
        kept = parts
        if event.author != "user":
            went_on.add(event.invocation_id)
        elif event.id not in own and not is_from_agent_tool(event):
            answered = [(part, part.function_response) for part in parts]
            kept = [p for p, answer in answered if answer is None or not _is_at_work(ledger.ever(answer.id), went_on)]
        if len(kept) == len(parts):
            seen.append(event)
        elif kept:
            seen.append(replace(event, content=content_of("user", kept)))
    seen.reverse()
    if seen == session.events:  # the same objects
        return session
    return session.model_copy(update={"events": seen})


def _is_at_work(made: CallRecord | None, went_on: Collection[str]) -> bool:
    """Whether what a message decides about a call is another run's to carry out: it has not done so, or no agent of the
    call's invocation has spoken since. `went_on` are the invocations in which one has."""
    if made is None or not made.is_decided_once:
        return False
    return (made.is_request and made.state == "decided") or made.event.invocation_id not in went_on


def path_of(event: Event) -> str:
    """The node path of an event: which turn of which member of a workflow it belongs to, `flow@1/writer@2`."""
    return event.node_info.path if event.node_info is not None else ""


def at_place(event: Event, ctx: AnyContext) -> bool:
    """Whether an event belongs to the branch, the scope and the workflow member of `ctx`."""
    return ctx.place.holds(Place.of(event)._replace(author=ctx.agent.name))


def is_within(branch: str | None, other: str | None) -> bool:
    """Whether a branch is the other one, or one below it."""
    return not other or branch == other or (branch or "").startswith(other + ".")
