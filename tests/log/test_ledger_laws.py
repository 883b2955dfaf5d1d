"""The ledger of a log as it grows is that of the log read at once, whatever is in it (decision 28)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from random_events import any_event

from flowloom import Event
from flowloom.log.ledger import CallLedger, CallRecord

IDS = ("c1", "c2", "c3", "r1")


def all_of(made: CallRecord | None) -> Any:
    """What a record says, with those before it."""
    if made is None:
        return None
    answers = [(id(each.response), id(each.event)) for each in made.answers]
    what = (id(made.call), id(made.event), made.kind, made.state, made.subject, made.inner, made.attempts)
    return what, answers, all_of(made.before)


def told(ledger: CallLedger) -> list[Any]:
    """All that a ledger tells of its calls."""
    listed = [ledger.unanswered(), ledger.pending(), *map(ledger.requests, IDS), *map(ledger.inside, IDS)]
    return [
        [all_of(ledger.ever(call_id)) for call_id in IDS],
        [[made.id for made in found] for found in listed],
        sorted(made.id for made in ledger.live()),
        [[id(event) for event in ledger.events_of(each)] for each in ("i1", "i2")],
        ledger.open_task(("look",)),
    ]


@given(st.lists(any_event, max_size=8), st.integers(1, 3))
def test_a_ledger_of_a_growing_log_tells_what_one_that_reads_it_at_once_does(log: list[Event], step: int) -> None:
    """After each event, and after each second and third one; also if some of it is rewound."""
    ledger = CallLedger()
    for seen in (*range(0, len(log), step), len(log)):
        assert told(ledger.read(log[:seen])) == told(CallLedger.of(log[:seen]))
