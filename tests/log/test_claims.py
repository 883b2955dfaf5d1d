"""What of a message is news to a log, and what it says again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from google.genai import types
from kit import event, named_call, result, text

from flowloom import Event
from flowloom.errors import AlreadyAnsweredError
from flowloom.events.requests import CONFIRMATION_CALL, INPUT_CALL
from flowloom.log.claims import check_undecided, without_repeated
from flowloom.log.ledger import CallLedger


def asks(request_id: str, name: str) -> Event:
    return event("root", named_call(request_id, name), long_running_tool_ids=[request_id])


def answers(*parts: types.Part, role: str | None = "user") -> types.Content:
    return types.Content(role=role, parts=list(parts))


def confirms(**fields: Any) -> types.Part:
    return result("r1", CONFIRMATION_CALL, fields)


LOG = [
    asks("r1", CONFIRMATION_CALL),
    asks("r2", INPUT_CALL),
    Event(author="user", content=answers(confirms(confirmed=True))),
]


@pytest.mark.parametrize("role", ["user", None, "function"])
def test_what_is_said_again_is_left_out_of_a_message(role: str | None) -> None:
    """However it is written; the rest is the user's, as it was."""
    again, new, words = (
        confirms(response='{"confirmed": true, "hint": null}'),
        result("r2", INPUT_CALL, {"result": 3}),
        text("so"),
    )
    message, repeated = without_repeated(CallLedger.of(LOG), answers(again, new, words, role=role))
    assert message == answers(new, words, role=role or "user")
    assert [(each.made.id, each.answer.event) for each in repeated] == [("r1", LOG[2])]
    assert without_repeated(CallLedger.of(LOG), answers(again))[0] is None


def test_a_message_without_repetition_is_what_it_is() -> None:
    """Also if it says nothing."""
    news = answers(result("r2", INPUT_CALL, {"result": 3}), role=None)
    for message in (news, types.Content(role="user", parts=[]), types.Content(role="user")):
        assert without_repeated(CallLedger.of(LOG), message) == (message, [])


def test_a_decision_is_not_made_another() -> None:
    """Neither by a message nor by an event that another process has stored first; both name the call and its answer."""
    other = answers(confirms(confirmed=False))
    for refused in (
        lambda: without_repeated(CallLedger.of(LOG), other),
        lambda: check_undecided(LOG, Event(author="user", content=other)),
    ):
        with pytest.raises(AlreadyAnsweredError, match=f"`r1` of `{CONFIRMATION_CALL}` by agent `root`") as caught:
            refused()
        assert LOG[2].id in str(caught.value)
        assert caught.value.call_id == "r1"
    check_undecided(LOG, LOG[2])
    check_undecided(LOG, Event(author="user", content=answers(result("r2", INPUT_CALL, {"result": 3}))))
    check_undecided(LOG, Event(author="user"))


class Looked(list[Event]):
    """A log that counts how many of its events are looked at."""

    def __init__(self, events: Iterable[Event]) -> None:
        super().__init__(events)
        self.seen = 0

    def __getitem__(self, at: Any) -> Any:
        found: Any = super().__getitem__(at)
        self.seen += len(found) if isinstance(at, slice) else 1
        return found


@pytest.mark.parametrize("earlier", [[], [asks("r1", CONFIRMATION_CALL)]])
def test_a_log_is_read_for_a_decision_from_the_call_that_it_is_about_on(earlier: list[Event]) -> None:
    """From the latest one, if the id was used before."""
    log = Looked([*earlier, *(event("root", named_call(f"c{n}", "look")) for n in range(50)), *LOG])
    with pytest.raises(AlreadyAnsweredError):
        check_undecided(log, Event(author="user", content=answers(confirms(confirmed=False))))
    assert log.seen == 2 * len(LOG)
