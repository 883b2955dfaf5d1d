"""Compares the ledger with readers of the whole log, after each event that a run records (`FLOWLOOM_LEDGER=1`).

The readers below say the same in another way: from the beginning, rule by rule, slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import pytest
from google.genai import types

from flowloom import Event
from flowloom.context.run import Run
from flowloom.events.requests import RESERVED_CALLS, is_request, looks_like_request
from flowloom.log.answers import answers_request, subject_call_id
from flowloom.log.ledger import CallLedger
from flowloom.log.marks import AGENT_TOOL_CALL, CLIENT_EXECUTED


def pending_ids(events: Iterable[Event], invocation_id: str | None = None) -> list[str]:
    """What waits for a person or a client, in the order asked."""
    found: dict[str, str] = {}
    client_executed: set[str] = set()
    calls: dict[str, types.FunctionCall] = {}
    scopes: dict[str, str | None] = {}

    def ended_by(call_id: str, answered: Set[str | None]) -> bool:
        if calls[call_id].name in RESERVED_CALLS and subject_call_id(calls[call_id]) in answered:
            return True
        scope = scopes.get(call_id)
        while scope is not None and scope not in answered:
            scope = scopes.get(scope)
        return scope is not None

    for event in kept_events(events):
        waiting = frozenset(event.long_running_tool_ids or ())
        if event.author != "user":
            answered: Set[str | None] = {answer.id for answer in event.get_function_responses() if answer.id}
            for call_id in [call_id for call_id in found if ended_by(call_id, answered)] if answered else ():
                del found[call_id]
        marks, parts = event.custom_metadata or {}, (event.content.parts if event.content is not None else None) or ()
        if AGENT_TOOL_CALL in marks and parts and event.isolation_scope in client_executed:
            found.pop(event.isolation_scope, None)  # a later run has begun it, and its agent waits
        client_executed.update(marks.get(CLIENT_EXECUTED, ()))
        for part in parts:
            call, response = part.function_call, part.function_response
            if call is not None and call.id:
                scopes[call.id] = event.isolation_scope
            if call is not None and looks_like_request(event, call) and not is_request(event, call):
                continue
            if call is not None and call.id and call.id in waiting:
                found[call.id], calls[call.id] = event.invocation_id, call
            elif call is not None and call.id:
                calls[call.id] = call
            elif response is None or not response.id:
                continue
            elif event.author != "user":
                if response.id in client_executed or "error" in (response.response or ()):
                    found.pop(response.id, None)
                elif response.id in waiting and (made := calls.get(response.id)) and made.name not in RESERVED_CALLS:
                    found[response.id] = event.invocation_id
            elif response.id in found and answers_request(response, calls[response.id]):
                del found[response.id]
    return [call_id for call_id, invocation in found.items() if invocation_id in (None, invocation)]


def kept_events(events: Iterable[Event]) -> list[Event]:
    """The log without what was rewound."""
    kept: list[Event] = []
    for event in events:
        target = event.actions.rewind_before_invocation_id
        if target is None:
            kept.append(event)
        else:
            start = next((at for at, each in enumerate(kept) if each.invocation_id == target), len(kept))
            del kept[start:]
    return kept


class Followed:
    """What a run knows of its calls, from the events of its invocation alone."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.open: dict[str, str | None] = {}
        self.inner: dict[str, str | None] = {}
        self.asked: dict[str, str | None] = {}
        self.waiting: dict[str, dict[str, Any]] = {}
        for event in events:
            self.follow(event)

    def follow(self, event: Event) -> None:
        parts = (event.content.parts if event.content is not None else None) or ()
        scope, marks = event.isolation_scope, event.custom_metadata or {}
        from_tool = AGENT_TOOL_CALL in marks
        for known in (self.open, self.inner, self.asked) if parts and scope is not None and from_tool else ():
            if scope in known:
                self.waiting[scope] = {"suspended": True, "scope": known.pop(scope)}
        if parts and scope is not None and from_tool and self.waiting.get(scope, {}).get("client_executed"):
            self.waiting[scope] = {"suspended": True, "scope": self.waiting[scope]["scope"]}
        waits = frozenset(event.long_running_tool_ids or ())
        actions = event.actions
        asked = {*actions.requested_tool_confirmations, *(actions.requested_inputs or ())}
        if event.author != "user":
            answered = {answer.id for answer in event.get_function_responses() if answer.id}
            for call_id in [
                call_id
                for call_id, each in self.waiting.items()
                if each.get("about") in answered or not answered.isdisjoint(self.around(each["scope"]))
            ]:
                del self.waiting[call_id]
        for part in parts:
            call, response = part.function_call, part.function_response
            if call is not None and call.id:
                asks = is_request(event, call)
                if not asks and looks_like_request(event, call):
                    continue
                about = subject_call_id(call) if asks else None
                if call.id in waits:
                    for each in [each for each in self.waiting if about and self.waiting[each].get("about") == about]:
                        if self.waiting[each].get("answered"):
                            del self.waiting[each]
                    if about in self.open:
                        self.asked[about] = self.open.pop(about)
                    self.waiting[call.id] = {
                        "about": about,
                        "scope": scope,
                        "request": call,
                        "client_executed": call.id in marks.get(CLIENT_EXECUTED, ()),
                    }
                else:
                    (self.inner if from_tool else self.open)[call.id] = scope
            elif response is not None and response.id:
                self.take(event, response, asked if not from_tool else set(), waits)

    def take(self, event: Event, response: types.FunctionResponse, asked: Set[str], waits: Set[str]) -> None:
        call_id = response.id or ""
        self.open.pop(call_id, None)
        if event.author != "user":
            self.asked.pop(call_id, None)
        if call_id in asked:
            self.open[call_id] = event.isolation_scope
        waiting = self.waiting.get(call_id)
        by_user, failed = event.author == "user", "error" in (response.response or ())
        if by_user and waiting is not None and (waiting.get("about") or not answers(response, waiting)):
            waiting["answered"] = waiting.get("answered") or answers(response, waiting)
            return
        if waiting is not None and (waiting.get("suspended") or waiting.get("client_executed") or by_user or failed):
            del self.waiting[call_id]
        elif call_id in waits:
            self.waiting[call_id] = {"scope": event.isolation_scope}

    def around(self, scope: str | None) -> list[str]:
        found: list[str] = []
        while scope is not None:
            found.append(scope)
            outer = self.waiting[scope]["scope"] if scope in self.waiting else None
            scope = outer or self.inner.get(scope) or self.open.get(scope)
        return found


def answers(response: types.FunctionResponse, waiting: dict[str, Any]) -> bool:
    request = waiting.get("request")
    return request is None or answers_request(response, request)


def unanswered_ids(events: Sequence[Event]) -> set[str]:
    """The calls that have no response at all, reports and placeholders included."""
    found: set[str] = set()
    for event in kept_events(events):
        for part in (event.content.parts if event.content is not None else None) or ():
            if part.function_call is not None and part.function_call.id:
                found.add(part.function_call.id)
            if part.function_response is not None:
                found.discard(part.function_response.id or "")
    return found


def check(run: Run) -> None:
    """Compare all that the ledger says with what the readers say."""
    events, own = run.session.events, run.invocation_id
    followed = Followed(event for event in kept_events(events) if event.invocation_id == own)
    ledger = run.session.history.ledger(events)
    assert [made.id for made in ledger.pending()] == pending_ids(events)
    assert [made.id for made in ledger.pending(own)] == pending_ids(events, own)
    waiting = {made.id: made for made in ledger.waiting(own)}
    assert waiting.keys() == followed.waiting.keys()
    for call_id, each in followed.waiting.items():
        assert (waiting[call_id].state == "suspended") == bool(each.get("suspended")), call_id
        assert (waiting[call_id].state == "decided") == bool(each.get("answered")), call_id
        if not each.get("suspended"):
            assert waiting[call_id].client_executed == bool(each.get("client_executed")), call_id
    opened = {made.id for made in ledger.open(own)}
    assert opened == followed.open.keys()
    if run.progress is None and not any(responses is not None for responses in run.told_calls.values()):
        own_calls, awaited = opened - run.told_calls.keys(), awaited_ids(events)
        delegating = {place_of(ledger, each) for each in own_calls & awaited}
        assert run.open_calls.keys() == {
            each for each in own_calls - awaited if place_of(ledger, each) not in delegating
        }
    assert said(CallLedger.of(events)) == said(ledger)


def awaited_ids(events: Sequence[Event]) -> set[str]:
    """The calls whose agents wait for a person or a client, themselves or further down."""
    followed = Followed(kept_events(events))
    waiting = [each for each in followed.waiting.values() if not each.get("suspended")]
    return {outer for each in waiting for outer in followed.around(each["scope"])}


def place_of(ledger: CallLedger, call_id: str) -> tuple[str | None, ...]:
    """Which agent has made a call, and where."""
    made = ledger.call(call_id)
    assert made is not None
    return made.place[:3]


def said(ledger: CallLedger) -> list[Any]:
    """All that a ledger says of calls that are not over."""
    live = sorted(ledger.live(), key=lambda made: made.since)
    return [(made.id, made.kind, made.state, made.attempts, len(made.answers)) for made in live]


def watched(record: Callable[..., Any]) -> Callable[..., Any]:
    async def recorded(run: Run, ctx: Any, event: Event, *args: Any, **options: Any) -> Event:
        stored = await record(run, ctx, event, *args, **options)
        if not stored.partial:
            check(run)
        return stored

    return recorded


@pytest.fixture(autouse=True)
def _ledger_is_checked(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.path.stem not in ("test_long_session", "test_cost"):  # which count what is read
        monkeypatch.setattr(Run, "record", watched(Run.record))
