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
from flowloom.events.parts import content_of
from flowloom.events.requests import RESERVED_CALLS, is_request
from flowloom.log.answers import answers_request, read_decision, read_input
from flowloom.log.marks import AGENT_TOOL_CALL, CLIENT_EXECUTED


class Decision(NamedTuple):
    """A decision in a log: the request and the first answer, each with the event that it is in."""

    request: types.FunctionCall
    asked: Event
    answer: types.FunctionResponse
    answered: Event


def without_repeated(events: Sequence[Event], message: types.Content) -> tuple[types.Content | None, list[Decision]]:
    """What of a message is news to a log, or None if nothing is; and the decisions that it repeats.

    Raises `AlreadyAnsweredError` if it would change one.
    """
    made = made_decisions(events, message)
    if not made:
        return message, []
    parts: list[types.Part] = []
    for part in message.parts or ():
        answer = part.function_response
        if answer is None or answer.id not in made:
            parts.append(part)
        elif not _says_the_same(answer, made[answer.id]):
            raise _already_answered(made[answer.id])
    return (content_of(message.role or "user", parts) if parts else None), list(made.values())


def check_undecided(events: Sequence[Event], answer: Event) -> None:
    """Raise `AlreadyAnsweredError` if a log has a decision that the event makes; the event itself does not count."""
    if answer.content is not None:
        for decision in made_decisions(events, answer.content).values():
            if decision.answered.id != answer.id:
                raise _already_answered(decision)


def made_decisions(events: Sequence[Event], message: types.Content) -> dict[str | None, Decision]:
    """What a log says already of what a message decides, by the id of the call that is answered."""
    wanted = {part.function_response.id for part in message.parts or () if part.function_response is not None} - {None}
    given: dict[str | None, list[tuple[types.FunctionResponse, Event]]] = {}
    made: dict[str | None, Decision] = {}
    for event in reversed(events):
        if not wanted:
            break
        if event.author == "user" and AGENT_TOOL_CALL not in (event.custom_metadata or ()):
            for answer in reversed(event.get_function_responses()):
                given.setdefault(answer.id, []).append((answer, event))
        for call in event.get_function_calls():
            if call.id not in wanted:
                continue
            wanted.discard(call.id)
            if is_decided_once(call, event):
                first = next(
                    (each for each in reversed(given.get(call.id, ())) if answers_request(each[0], call)), None
                )
                if first is not None:
                    made[call.id] = Decision(call, event, *first)
    return made


def is_decided_once(call: types.FunctionCall, asked: Event) -> bool:
    """Whether a call has one answer of the user's at most, and no reports of how far something is."""
    return is_request(asked, call) or call.id in (asked.custom_metadata or {}).get(CLIENT_EXECUTED, ())


def _says_the_same(answer: types.FunctionResponse, made: Decision) -> bool:
    """Whether an answer comes to what was decided, however it is written."""
    read = read_decision if RESERVED_CALLS.get(made.request.name) == "confirmation" else read_input
    return read(answer) == read(made.answer)


def _already_answered(decision: Decision) -> AlreadyAnsweredError:
    call = decision.request
    return AlreadyAnsweredError(
        f"The call `{call.id}` of `{call.name}` by agent `{decision.asked.author}` was answered already, by the event "
        f"`{decision.answered.id}`. A decision is made once: nothing of the message was stored.",
        call_id=call.id or "",
    )
