"""What may enter a log from elsewhere: of requests to people only the engine's own, of users' credentials nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from google.genai import types

from flowloom.auth.answers import credential_requests, redact_message
from flowloom.errors import AlreadyAnsweredError, InputValidationError, UnreadableAnswerError, quoted_list
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.events.json_data import keep_json_state
from flowloom.events.parts import parts_of
from flowloom.events.requests import CREDENTIAL_CALL, RESERVED_CALLS, ForeignRequestIds, foreign_requests
from flowloom.events.wire import replace
from flowloom.log.answers import check_answer
from flowloom.log.claims import says_the_same
from flowloom.log.ledger import CallLedger, CallRecord
from flowloom.log.marks import MARKS
from flowloom.sessions.state import State, own_value

_log = logging.getLogger("flowloom.sessions")


def key_of_new(app_name: str, user_id: str, session_id: str | None) -> tuple[str, str, str]:
    """The names of a session that is to be made, with an id of its own if none is given."""
    check_owner(app_name, user_id)
    if session_id is None:
        session_id = new_id()
    check_texts(app_name=app_name, user_id=user_id, session_id=session_id)
    return app_name, user_id, session_id.strip() or new_id()


def check_owner(app_name: str, user_id: str) -> None:
    """Raise `InputValidationError` for a session without an app or a user."""
    if not app_name or not user_id:
        raise InputValidationError("A session needs an app name and a user id; one of them is empty.")


def check_texts(**names: object) -> None:
    """Raise `InputValidationError` for a name of a session that is no text."""
    for what, name in names.items():
        if not isinstance(name, str):
            raise InputValidationError(f"`{what}` takes a text, not {name!r:.60}, which is {type(name).__name__}.")


def check_metadata(given: Mapping[str, Any] | None) -> None:
    """Raise `InputValidationError` for metadata that a caller may not have a run put on its events."""
    if found := MARKS.intersection(given or ()):
        raise InputValidationError(f"`custom_metadata` has {quoted_list(sorted(found))}, the engine's. Rename it.")


def admitted(event: Event, log: Sequence[Event]) -> Event:
    """An event as it may be appended to a log."""
    if event.author == "user":
        event = _without_secrets(event, credential_requests(log, event.content))
    return _with_origin(event)


def check_message(message: types.Content) -> None:
    """Raise `UnreadableAnswerError` if a user's message holds an answer that cannot be read, and `InputValidationError`
    for a call: only models call, and nothing would give its result.
    """
    for number, part in enumerate(parts_of(message), 1):
        if (answer := part.function_response) is not None:
            check_answer(answer, RESERVED_CALLS.get(answer.name))
        if (call := part.function_call) is not None:
            raise InputValidationError(
                f"Part {number} of the message calls the function `{call.name}`, and only models call. Give a text, a "
                f"file, or the result of a call, as a `function_response`: nothing of the message was stored."
            )


def admitted_message(message: types.Content, ledger: CallLedger) -> types.Content:
    """A user's message as it may be stored behind the calls of `ledger`: each answer has the name of its call, because
    models pair the two by both, and none decides what one before it has decided already.

    Raises `UnreadableAnswerError` for an answer that has another name, `AlreadyAnsweredError` if two are not the same.
    """
    parts: list[types.Part] = []
    first: dict[str, types.FunctionResponse] = {}
    for part in parts_of(message):
        given = part.function_response
        made = None if given is None else ledger.ever(given.id)
        if given is None or made is None:
            parts.append(part)
            continue
        answer = _named(given, made)
        if made.id not in first or not made.is_decided_once:
            first[made.id] = answer
            parts.append(part if answer is given else replace(part, function_response=answer))
        elif not says_the_same(made, answer, first[made.id]):
            raise AlreadyAnsweredError(
                f"The message answers the call `{made.id}` of `{made.name}` by agent `{made.author}` twice, and not "
                f"the same. A decision is made once: nothing of the message was stored.",
                call_id=made.id,
            )
    return message if parts == parts_of(message) else replace(message, parts=parts)


def _named(answer: types.FunctionResponse, made: CallRecord) -> types.FunctionResponse:
    """The answer to a call with the name of that, if it has none."""
    if answer.name == made.name:
        return answer
    if answer.name:
        raise UnreadableAnswerError(
            f"The answer to the call `{made.id}` of `{made.name}` by agent `{made.author}` has the name "
            f"`{answer.name}`. Name it `{made.name}`, or give it the id of the call that it answers: nothing of the "
            f"message was stored.",
            call_id=made.id,
        )
    named = replace(answer, name=made.name)
    check_answer(named, RESERVED_CALLS.get(made.name))
    return named


def answers_unknown(event: Event, log: Sequence[Event]) -> bool:
    """Whether an event answers a call that is not in a log, as far as that is loaded: it is perhaps in the rest."""
    wanted = {answer.id for answer in event.get_function_responses() if answer.id and answer.name != CREDENTIAL_CALL}
    for each in reversed(log) if wanted else ():
        wanted.difference_update(call.id for call in each.get_function_calls())
        if not wanted:
            break
    return bool(wanted)


def admitted_log(events: Sequence[Event]) -> list[Event]:
    """A log that was kept elsewhere as it may be taken over, by the same rule."""
    asked = {call.id for event in events for call in event.get_function_calls() if call.name == CREDENTIAL_CALL}
    return [_with_origin(_without_secrets(event, asked)) for event in events]


def admitted_state(state: dict[str, Any]) -> dict[str, Any]:
    """State as it may be stored: without `temp:`, as JSON data that nothing changes later; itself if it is that.

    Raises `InputValidationError` for what is no dict, and `JsonDataError`, which names the key.
    """
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError(f"State is a dict of names and values, not {state!r:.60}.")
    if not state or all(
        type(value) in _FINAL and not key.startswith(State.TEMP_PREFIX) for key, value in state.items()
    ):
        return state
    made = {key: value for key, value in state.items() if not key.startswith(State.TEMP_PREFIX)}
    for key in made:
        keep_json_state(made, key)
    return {key: own_value(value) for key, value in made.items()}


_FINAL = (str, int, bool, type(None))


def _with_origin(event: Event) -> Event:
    """The event with all that it says, so that its requests ask no person unless the engine made them."""
    if not foreign_requests(event):
        return event
    _log.info("Event `%s` of `%s` came with requests to people, which are history here.", event.id, event.author)
    return replace(event, long_running_tool_ids=ForeignRequestIds(event.long_running_tool_ids or ()))


def _without_secrets(event: Event, requests: Collection[str | None]) -> Event:
    """The event without what answers a request for a credential, by its name or as one of these `requests`."""
    if event.content is None:
        return event
    content, _ = redact_message(event.content, requests)
    if content is event.content:
        return event
    return replace(event, content=content)
