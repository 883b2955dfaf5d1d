"""`CallLedger`: the only code that says in what state a function call is (decision 28).

A fold over events: what was rewound does not count, and nothing is read twice. Whether an answer is one is decided
here, once, by the strict rule of `log/answers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from google.genai import types

from flowloom.events.event import Event
from flowloom.events.requests import RESERVED_CALLS, RequestKind, is_request
from flowloom.events.wire import fields_of
from flowloom.log.answers import answers_request, subject_call_id
from flowloom.log.effective_log import EffectiveLog
from flowloom.log.marks import CLIENT_EXECUTED, REPEATED, ids_under, is_from_agent_tool

Kind = RequestKind | Literal["tool", "client"]
State = Literal["open", "waiting", "decided", "suspended", "answered"]

_since: Callable[[CallRecord], int] = attrgetter("since")


class Place(NamedTuple):
    """Whose call it is, and where in a run it was made."""

    author: str
    branch: str | None
    scope: str | None
    """The call that the author runs for, if it was called like a function."""
    path: str
    """The turn of a workflow's member, `flow@1/writer@2`; empty outside workflows."""

    @classmethod
    def of(cls, event: Event) -> Place:
        """Where an event was made."""
        path = event.node_info.path if event.node_info is not None else ""
        return cls(event.author, event.branch or None, event.isolation_scope or None, path)

    def holds(self, other: Place) -> bool:
        """Whether something was made here; what has no node path may have been."""
        return self[:3] == other[:3] and other.path in (self.path, "")


class Answer(NamedTuple):
    """A function response, and the event that it is in."""

    response: types.FunctionResponse
    event: Event
    since: int
    """Its place in the order of `CallRecord.since`."""

    @property
    def failed(self) -> bool:
        return "error" in (self.response.response or ())

    @property
    def has_begun(self) -> bool:
        """Whether the engine says with it that the call gives its result later."""
        return bool(ids := self.event.long_running_tool_ids) and self.response.id in ids and not self.failed


def asks(event: Event, call_id: str | None) -> bool:
    """Whether the response to the call `call_id` in an event stands in the place of a result until a person was asked
    about the call."""
    actions = event.actions
    return call_id in actions.requested_tool_confirmations or call_id in (actions.requested_inputs or ())


@dataclass(slots=True, eq=False, repr=False)
class CallRecord:
    """A function call: where it was made, what it is, and how far it is."""

    call: types.FunctionCall
    event: Event
    """The event that it is in."""
    kind: Kind
    """What answers it: a `tool` that runs here, a `client` (long-running tools, client-executed calls), or a person."""
    state: State
    """`open`: it has no result yet; `waiting`: a person or a client has to answer; `decided`: that is done, and not
    carried out; `suspended`: the agent that it runs waits; `answered`: it has its result, or will have none."""
    since: int
    """Its place in the order in which calls were made, and began to wait."""
    subject: str | None = None
    """The call that a request to a person is about."""
    inner: bool = False
    """Whether an agent that runs as a tool has made it, which answers it in a run of its own."""
    attempts: int = 1
    """How often it was begun and nothing came of it, as far as anything tells: once by the run that has recorded it,
    unless that stopped before it or its agent waits, and once for each mark since."""
    answers: tuple[Answer, ...] = ()
    """What was answered, in order: reports and placeholders too, but no decision that cannot be read."""
    before: CallRecord | None = None
    """An earlier call of the same id."""

    @property
    def id(self) -> str:
        return self.call.id or ""

    @property
    def name(self) -> str:
        return self.call.name or ""

    @property
    def author(self) -> str:
        return self.event.author

    @property
    def suspended(self) -> bool:
        """Whether it is the call of an agent that waits: the agent answers it, not the user."""
        return self.state == "suspended"

    @property
    def parent(self) -> str | None:
        """The call whose agent has made this one."""
        return self.event.isolation_scope or None

    @property
    def place(self) -> Place:
        return Place.of(self.event)

    @property
    def is_request(self) -> bool:
        """Whether it asks a person for something."""
        return self.kind != "tool" and self.kind != "client"

    @property
    def is_decided_once(self) -> bool:
        """Whether it has one answer of the user's at most, and no reports of how far something is."""
        return self.is_request or self.id in ids_under(self.event.custom_metadata, CLIENT_EXECUTED)

    @property
    def client_executed(self) -> bool:
        """Whether it waits only because the run stopped before it: any result ends that."""
        return self.is_decided_once and not (self.is_request or self.answers)

    @property
    def decision(self) -> Answer | None:
        """The first answer of the user's to what is decided once; None if there is none."""
        if not self.is_decided_once:
            return None
        given = (each for each in self.answers if each.event.author == "user" and not is_from_agent_tool(each.event))
        return next(given, None)

    @property
    def is_of_stopped_run(self) -> bool:
        """Whether the run stopped before it and the other calls of its answer (`RunConfig.pause_on_tool_calls`)."""
        return CLIENT_EXECUTED in (self.event.custom_metadata or ())

    @property
    def waits(self) -> bool:
        """Whether the run can end before it is over: for a client or a person, or for what its agent waits for."""
        if self.state == "suspended":
            return True
        return self.kind != "tool" and (self.state == "waiting" or self.state == "decided")


class CallLedger:
    """The calls of one log. It belongs to a session's history, and reads new events only.

    `log` says which events were rewound; it may be shared with the history, by default the ledger has its own. Where a
    method takes an `invocation_id`, it tells of the calls of that invocation; with None, of all.
    """

    def __init__(self, log: EffectiveLog | None = None) -> None:
        self._log = log or EffectiveLog()
        self._generation = 0  # of the log
        self._reset()

    def _reset(self) -> None:
        self._count = 0
        self._size = 0  # how much was read of what was not rewound
        self._calls: dict[str, CallRecord] = {}  # the latest of each id
        self._gone: dict[str, CallRecord] = {}  # those that do not count: rewound, or from elsewhere
        self._live: dict[str, dict[str, CallRecord]] = {}  # those that are not over, by invocation
        self._requests: dict[str, list[CallRecord]] = {}  # by the call that they are about
        self._inside: dict[str, list[CallRecord]] = {}  # by the call whose agent made them
        self._scopes: dict[str, None] = {}  # of agents that were called and have not finished, the latest one last
        self._handing: dict[str, str] = {}  # the target of an answer of calls that hand over, while others are open
        self.handovers: dict[str, str] = {}
        """The agent that control goes to, by the event behind which it does: not before the agents have answered that
        were called beside the handover."""

    # -- reading -------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, events: Iterable[Event]) -> CallLedger:
        """The ledger of `events`."""
        return cls().read([*events])

    def read(self, events: Sequence[Event]) -> CallLedger:
        """Come up to date with the log `events`; work is proportional to what is new in it."""
        log = self._log
        log.read(events)
        if log.generation != self._generation:
            self._reset()
            self._read(log.rewound)
            gone = self._gone | self._calls
            self._reset()
            self._gone, self._generation = gone, log.generation
        new = log.kept[self._size :]
        self._size += len(new)
        self._read(new)
        return self

    def _read(self, events: Sequence[Event]) -> None:
        for event in events:
            said = fields_of(event)
            scope, content, actions = said["isolation_scope"], said["content"], fields_of(said["actions"])
            inner = self._read_scope(event, scope) if scope else False
            if actions["agent_state"]:
                self._read_marks(actions["agent_state"])
            for part in (content.parts if content is not None else None) or ():
                call, response = part.function_call, part.function_response
                if call is not None and call.id and event.author != "user":  # who calls nothing
                    self._take_call(event, call, call.id, inner)
                elif response is not None and response.id:
                    self._take_response(event, response, response.id, inner)
            if self._handing or actions["transfer_to_agent"]:
                self._read_handover(event, actions["transfer_to_agent"])

    def _read_marks(self, state: Mapping[str, Any]) -> None:
        """Calls are about to be made."""
        for made in filter(None, map(self._calls.get, ids_under(state, REPEATED))):
            made.attempts += 1

    def _read_scope(self, event: Event, scope: str) -> bool:
        """Take note of an agent that was called: whether it runs as a tool, and the log keeps what it has left because
        it waits. It has come further then, if it was begun again."""
        if not is_from_agent_tool(event):
            self._scopes.pop(scope, None)
            self._scopes[scope] = None
            return False
        if (made := self._calls.get(scope)) is not None:
            begins = made.state in ("open", "decided") or (made.state == "waiting" and made.client_executed)
            if begins and event.content is not None and event.content.parts:
                made.state = "suspended"
            for outer in (made, *self.around(made)):
                outer.attempts = 0
        return True

    def _read_handover(self, event: Event, target: str | None) -> None:
        """Take note of an answer of calls that hands over, and of the last result that it has waited for.

        It waits for what is under way beside it: calls without any answer, agents that have begun, and calls that a
        person has decided about already, which run in the same step. It does not wait for a person who has not: the
        model gave control away, and the decision, which may never come, goes to the agent that called (spec §18.6).
        """
        answered = list(filter(None, (self.call(each.id) for each in event.get_function_responses())))
        made = answered or self.unfinished(event.invocation_id, Place.of(event))[-1:]  # what changes has no answer yet
        for calling in {each.event.id: each.event for each in made}.values() or [event]:
            if target:
                self._handing[calling.id] = target
            beside = filter(None, (self.call(call.id) for call in calling.get_function_calls()))
            under_way = (m for m in beside if m.state in ("decided", "suspended") or not m.answers)
            if calling.id in self._handing and not any(m.kind == "tool" for m in under_way):
                self.handovers[event.id] = self._handing.pop(calling.id)

    def _take_call(self, event: Event, call: types.FunctionCall, call_id: str, inner: bool) -> None:
        kind: Kind = "tool"
        state: State = "open"
        subject = None
        if event.long_running_tool_ids and call_id in event.long_running_tool_ids:
            kind, state = RESERVED_CALLS.get(call.name, "client"), "waiting"
            if kind != "client":
                if not is_request(event, call):  # it came from elsewhere, and is history
                    self._gone[call_id] = CallRecord(call, event, "tool", "answered", self._count)
                    return
                subject = subject_call_id(call)
        self._count += 1
        before = self._calls.get(call_id)
        if before is not None:
            self._forget(before)
        attempts = 0 if CLIENT_EXECUTED in (event.custom_metadata or ()) else 1
        made = CallRecord(call, event, kind, state, self._count, subject, inner, attempts, before=before)
        self._calls[call_id] = made
        self._live.setdefault(event.invocation_id, {})[call_id] = made
        if event.isolation_scope:
            self._inside.setdefault(event.isolation_scope, []).append(made)
        if subject:
            earlier = self._requests.setdefault(subject, [])
            for request in earlier:
                if request.state == "decided":  # it is asked about again, so that the decision was carried out
                    self._end(request)
            earlier.append(made)
            self._decide(subject, "waiting")

    def _take_response(self, event: Event, response: types.FunctionResponse, call_id: str, inner: bool) -> None:
        self._scopes.pop(call_id, None)
        made, answer = self._calls.get(call_id), Answer(response, event, self._count)
        if event.author == "user":
            if made is not None:
                self._take_answer(made, answer, inner)
            return
        for request in self._requests.get(call_id, ()):  # what people were asked about the call is over
            self._end(request)
        self._end_inside(call_id)
        if made is not None:
            self._take_result(made, answer, inner)

    def _take_answer(self, made: CallRecord, answer: Answer, inner: bool) -> None:
        """What the user answers, or the end of a task."""
        if made.kind != "tool" and made.kind != "client":
            if not inner:
                self._take_decision(made, answer)
            return
        made.answers += (answer,)
        if made.state == "suspended" or made.state == "open" or made.kind == "client":
            self._end(made)
            self._end_inside(made.id)

    def _take_decision(self, made: CallRecord, answer: Answer) -> None:
        """What a person answers to a request."""
        if not answers_request(answer.response, made.call):
            return
        made.answers += (answer,)
        if made.state == "waiting" and made.subject:
            made.state = "decided"
            self._decide(made.subject, "decided")
        elif made.state == "waiting":
            self._end(made)

    def _take_result(self, made: CallRecord, answer: Answer, inner: bool) -> None:
        """What the engine answers: a result, a report of how far it is, or a placeholder until a person has decided."""
        if made.kind != "tool" and made.kind != "client":
            if answer.failed:
                self._end(made)
            return
        is_report = made.kind == "client" and made.state == "waiting" and not (made.client_executed or answer.failed)
        made.answers += (answer,)
        if is_report:
            return
        if answer.has_begun:
            self._count += 1
            made.kind, made.state, made.since = "client", "waiting", self._count
        elif asks(answer.event, answer.response.id) and not inner:
            made.kind, made.state = "tool", "open"
        else:
            self._end(made)
            return
        self._live.setdefault(made.event.invocation_id, {})[made.id] = made

    def _decide(self, call_id: str, state: State) -> None:
        """A person is asked about a call, or has decided."""
        made = self._calls.get(call_id)
        if made is not None and made.kind == "tool" and made.state in ("open", "waiting", "decided"):
            made.state = state

    def _end_inside(self, call_id: str) -> None:
        """A call has a result: what its agent waited for is over."""
        for made in self.inside(call_id):
            if made.state != "open" or made.inner:
                self._end(made)

    def _end(self, made: CallRecord) -> None:
        made.state = "answered"
        self._forget(made)

    def _forget(self, made: CallRecord) -> None:
        invocation_id, call_id = made.event.invocation_id, made.id
        live = self._live.get(invocation_id)
        if live is not None and live.get(call_id) is made:
            del live[call_id]
            if not live:
                del self._live[invocation_id]

    # -- queries -------------------------------------------------------------------------------------------------------

    def events_of(self, invocation_id: str) -> list[Event]:
        """The events of an invocation that were not rewound; work is proportional to what came since it began."""
        kept, start = self._log.kept, self._log.start_of(invocation_id)
        return [] if start is None else [event for event in kept[start:] if event.invocation_id == invocation_id]

    def call(self, call_id: str | None) -> CallRecord | None:
        """The latest call of the id `call_id`, over or not."""
        return self._calls.get(call_id or "")

    def ever(self, call_id: str | None) -> CallRecord | None:
        """The latest call of the id `call_id`, also if it was rewound, or is a request that came from elsewhere."""
        return self.call(call_id) or self._gone.get(call_id or "")

    def live(self, invocation_id: str | None = None) -> Iterable[CallRecord]:
        """The calls that are not over, of one invocation if it is named."""
        if invocation_id is not None:
            return self._live.get(invocation_id, {}).values()
        return chain.from_iterable(calls.values() for calls in self._live.values())

    def open(self, invocation_id: str | None = None) -> list[CallRecord]:
        """The calls that were made here and have no result, and about which no person is asked."""
        return [made for made in self.live(invocation_id) if made.state == "open" and not made.inner]

    def unanswered(self, invocation_id: str | None = None) -> list[CallRecord]:
        """The calls without any response, in the order made."""
        return sorted((made for made in self.live(invocation_id) if not made.answers), key=_since)

    def unfinished(self, invocation_id: str, place: Place) -> list[CallRecord]:
        """The calls that an agent has made at a place of an invocation, that have no response, and that no person is
        asked about."""
        found = self.unanswered(invocation_id)
        return [m for m in found if not m.is_request and m.id not in self._requests and place.holds(m.place)]

    def requests(self, call_id: str | None) -> Sequence[CallRecord]:
        """The requests to people that are about the call `call_id`, in the order asked, whether they are over
        or not.
        """
        return self._requests.get(call_id or "", ())

    def decided(self, invocation_id: str) -> list[CallRecord]:
        """The requests that people have answered, and no agent has carried out, in the order asked."""
        found = (made for made in self.live(invocation_id) if made.is_request and made.state == "decided")
        return sorted(found, key=_since)

    def waiting(self, invocation_id: str | None = None) -> list[CallRecord]:
        """The calls that the run can end before: of a client, to a person (also if the answer is there, and was not
        carried out), and those of agents that wait."""
        return [made for made in self.live(invocation_id) if made.waits]

    def pending(self, invocation_id: str | None = None) -> list[CallRecord]:
        """The calls that a person or a client has to answer, in the order asked."""
        found = (made for made in self.live(invocation_id) if made.kind != "tool" and made.state == "waiting")
        return sorted(found, key=_since)

    def around(self, made: CallRecord | None) -> Iterator[CallRecord]:
        """The calls that the agent which made the call `made` runs for, the innermost first."""
        seen: set[str | None] = {None}
        while made is not None and made.parent not in seen:
            seen.add(made.parent)
            if (made := self.call(made.parent)) is not None:
                yield made

    def awaiting(self) -> set[str]:
        """The ids of the calls whose agents wait for an answer, themselves or further down, perhaps since a later
        invocation."""
        answered_elsewhere = (made for made in self.waiting() if not made.suspended)
        return {outer.id for made in answered_elsewhere for outer in self.around(made)}

    def inside(self, call_id: str) -> list[CallRecord]:
        """The calls of the agent behind the call `call_id`, and of those that these run."""
        found = [*self._inside.get(call_id, ())]
        seen = {call_id}
        for made in found:  # grows meanwhile
            if made.id not in seen:
                seen.add(made.id)
                found += self._inside.get(made.id, ())
        return found

    def is_ready(self, call_id: str) -> bool:
        """Whether the agent behind the call `call_id` waits for no answer: it was cut off, or stopped before calls that
        can run.
        """
        waiting = [made for made in self.inside(call_id) if made.waits and made.state != "suspended"]
        return all(made.state == "decided" for made in waiting) or any(made.client_executed for made in waiting)

    def open_task(self, agents: Collection[str]) -> str | None:
        """The scope of the latest event of one of these `agents` (their names), called and not finished: the user's
        next message belongs to it (spec §18.4).
        """
        for scope in reversed(self._scopes):
            made = self._calls.get(scope)
            if made is None or made.name in agents:
                return scope
        return None
