"""Decisions are made once in a log: which of them a message repeats, and which it would change.

A decision is the answer to a request (for a confirmation, input, a credential), or the result of a call that the run
has left to its client. Reports of a long-running tool are none: there may be several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from google.genai import types

from flowloom.errors import AlreadyAnsweredError
from flowloom.events.event import Event
from flowloom.events.parts import content_of, parts_of
from flowloom.events.requests import CONFIRMATION_CALL
from flowloom.log.answers import read_decision, read_input
from flowloom.log.ledger import Answer, CallLedger, CallRecord


class Decision(NamedTuple):
    """A decision in a log: what was asked, and the first answer."""

    made: CallRecord
    answer: Answer


def without_repeated(ledger: CallLedger, message: types.Content) -> tuple[types.Content | None, list[Decision]]:
    """What of a message is news to a log, or None if nothing is; and the decisions that it repeats.

    Raises `AlreadyAnsweredError` if it would change one.
    """
    decisions = _decisions(ledger, message)
    if not decisions:
        return message, []
    parts: list[types.Part] = []
    for part in parts_of(message):
        answer = part.function_response
        if answer is None or answer.id not in decisions:
            parts.append(part)
        elif not says_the_same(decisions[answer.id].made, answer, decisions[answer.id].answer.response):
            raise _already_answered(decisions[answer.id])
    return (content_of(message.role or "user", parts) if parts else None), list(decisions.values())


def check_undecided(events: Sequence[Event], answer: Event) -> None:
    """Raise `AlreadyAnsweredError` if a log has a decision that the event makes; the event itself does not count."""
    ledger = CallLedger.of(events[_first_asked(events, answer) :])
    for decision in _decisions(ledger, answer.content).values():
        if decision.answer.event.id != answer.id:
            raise _already_answered(decision)


def _first_asked(events: Sequence[Event], answer: Event) -> int:
    """Where in a log the first of the calls was made that an event answers; of two of one id, the latest."""
    wanted = {response.id for response in answer.get_function_responses()}
    for index in reversed(range(len(events))):
        if not wanted:
            return index + 1
        wanted.difference_update(call.id for call in events[index].get_function_calls())
    return 0


def _decisions(ledger: CallLedger, message: types.Content | None) -> dict[str | None, Decision]:
    """What a log says already of what a message decides, by the id of the call that is answered."""
    found: dict[str | None, Decision] = {}
    for part in parts_of(message):
        made = ledger.ever(part.function_response.id) if part.function_response is not None else None
        if made is not None and (answer := made.decision) is not None:
            found[made.id] = Decision(made, answer)
    return found


def says_the_same(made: CallRecord, answer: types.FunctionResponse, other: types.FunctionResponse) -> bool:
    """Whether two answers to a call come to the same, however they are written."""
    read = read_decision if made.name == CONFIRMATION_CALL else read_input
    return read(answer) == read(other)


def _already_answered(decision: Decision) -> AlreadyAnsweredError:
    made = decision.made
    return AlreadyAnsweredError(
        f"The call `{made.id}` of `{made.name}` by agent `{made.author}` was answered already, by the event "
        f"`{decision.answer.event.id}`. A decision is made once: nothing of the message was stored.",
        call_id=made.id,
    )
