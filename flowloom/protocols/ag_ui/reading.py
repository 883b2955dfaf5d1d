"""A request of AG-UI as what a run is given: what is new in it, and what it answers (protocols spec §5, In)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from flowloom.errors import FlowloomError, InputValidationError
from flowloom.events.event import Event
from flowloom.events.parts import as_object, call_part, content_of, parts_of, response_part, text_part
from flowloom.events.requests import CREDENTIAL_CALL
from flowloom.log.marks import ids_under
from flowloom.protocols.ag_ui.data import CLOSED_PREFIXES, as_data, as_mapping
from flowloom.protocols.names import is_fit, is_reserved
from flowloom.runner import PendingCall, pending_calls
from flowloom.sessions import Session

MESSAGE_IDS = "ag_ui_message_ids"
"""The key in the metadata of a run's events under which the ids of the page's messages stand that it has answered."""


class StaleAnswerError(FlowloomError, LookupError):
    """An answer names a question that is not open: HTTP 409."""


@dataclass(slots=True)
class Asked:
    """What a request asks for."""

    message: types.Content
    state_delta: dict[str, Any] = field(default_factory=dict[str, Any])
    before: list[types.Content] = field(default_factory=list[types.Content])
    """What was said before, in a thread that the session does not know."""
    message_ids: list[str] = field(default_factory=list[str])
    """The ids of the messages that are new."""


def read_request(request: Any, session: Session, *, takes_state: bool) -> Asked:
    """What is new in a `RunAgentInput`, beside what the `session` has.

    Answers come first, then the words that the session does not have. Raises `StaleAnswerError` for an answer to what
    does not wait, `InputValidationError` for a request in which nothing is new, and for parts that cannot be read.
    """
    waiting = {pending.id: pending for pending in pending_calls(session.events)}
    parts = [_resumed(waiting.pop(entry.interrupt_id, None), entry) for entry in request.resume or ()]
    parts += _results(waiting, request.messages)
    before, fresh = _new_words(request.messages, session.events)
    parts += [part for message in fresh for part in _parts_of(message)]
    if before and not fresh:  # all that is new are the results that the page's conversation ends with
        parts += before.pop().parts or ()
    if not parts:
        raise InputValidationError("Nothing in this request is new: no words, no result and no answer.")
    delta = _state_delta(request.state, session) if takes_state else {}
    return Asked(content_of("user", parts), delta, before, [message.id for message in fresh])


# -- answers -----------------------------------------------------------------------------------------


def _resumed(pending: PendingCall | None, entry: Any) -> types.Part:
    if pending is None:
        raise StaleAnswerError(f"Nothing waits for an answer to `{entry.interrupt_id}`: it is unknown, or answered.")
    payload = entry.payload
    given = as_mapping(payload) or {}
    if pending.kind == "confirmation":
        if entry.status == "cancelled":
            return pending.reject()
        confirmed = payload if isinstance(payload, bool) else given.get("confirmed", given.get("approved"))
        if not isinstance(confirmed, bool):
            raise InputValidationError(f"The answer to `{pending.id}` has to be true, false or `{{confirmed}}`.")
        if not confirmed:
            return pending.reject(given.get("reason"))
        return pending.approve(edited_args=given.get("editedArgs"))
    if pending.kind == "credential":
        refused = response_part(pending.id, CREDENTIAL_CALL, {})
        return refused if entry.status == "cancelled" else _credential(pending, payload)
    if entry.status == "cancelled":
        return pending.reply(None if _takes_null(pending.response_schema) else {"cancelled": True})
    return pending.reply(payload)


def _takes_null(schema: dict[str, Any] | None) -> bool:
    """Whether null is an answer of its own: who asks so takes it that the question was closed."""
    kinds: Any = (schema or {}).get("type")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _credential(pending: PendingCall, payload: Any) -> types.Part:
    """The answer to a request for a credential: the address that a login has led to, a key, or an `AuthCredential`."""
    given = as_mapping(payload) or {}
    uri = payload if isinstance(payload, str) else given.get("responseUri", given.get("authResponseUri"))
    scheme = as_mapping((as_mapping(pending.raw.get("authConfig")) or {}).get("authScheme")) or {}
    if isinstance(payload, str) and scheme.get("type") == "apiKey":
        return response_part(pending.id, CREDENTIAL_CALL, {"response": payload})
    if isinstance(uri, str):
        return pending.consent(uri)
    if not given:
        raise InputValidationError(
            f"The answer to `{pending.id}` is the address that the login has led to, or the credential itself."
        )
    return response_part(pending.id, CREDENTIAL_CALL, given)


def _results(waiting: dict[str, PendingCall], messages: Sequence[Any]) -> list[types.Part]:
    """What tool messages say of calls that wait; each call once, and repeats are ignored."""
    parts: list[types.Part] = []
    for message in messages:
        pending = waiting.get(getattr(message, "tool_call_id", None) or "")
        if message.role != "tool" or pending is None or pending.kind != "tool":
            continue
        del waiting[pending.id]
        parts.append(pending.reply(_result(message)))
    return parts


def _result(message: Any) -> Any:
    """What a tool message says: an error, JSON, or text; of several parts, their texts."""
    if message.error:
        return {"error": message.error}
    content = message.content
    if not isinstance(content, str):
        return "\n\n".join(part.text for part in content if part.type == "text")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


# -- words -------------------------------------------------------------------------------------------


def _new_words(messages: Sequence[Any], events: Sequence[Event]) -> tuple[list[types.Content], list[Any]]:
    """What the session does not have: for one without words or files, all before the last message of the user, or
    all if results come last; else the user's messages whose ids it does not know."""
    said = [message for message in messages if message.role == "user"]
    spoken = [event for event in events if _has_words(event.content)]
    if not spoken and said:
        told = _told_before(messages)
        if told[-1].role == "user" and messages[-1].role == "tool":
            return told, []
        last = max(index for index, message in enumerate(messages) if message.role == "user")
        return _told_before(messages[:last]), said[-1:]
    ids = {given for event in events for given in ids_under(event.custom_metadata, MESSAGE_IDS)}
    fresh = [message for message in said if message.id not in ids]
    heard = [event for event in spoken if event.author == "user"]
    nameless = [_text_of(event.content) for event in heard if MESSAGE_IDS not in (event.custom_metadata or {})]
    while fresh and nameless and _text(fresh[0].content) == nameless[0]:  # said elsewhere: known by place and text
        del fresh[0], nameless[0]
    return [], fresh


def _told_before(messages: Sequence[Any]) -> list[types.Content]:
    """A conversation that the session does not know: words, and calls that have results. What a client says of a system
    is left out, and so are calls without a result: they are claims, and nothing is to be done for them."""
    results = {message.tool_call_id: _result(message) for message in messages if message.role == "tool"}
    told: list[types.Content] = []
    for message in messages:
        if message.role == "user":
            told.append(content_of("user", _parts_of(message)))
        elif message.role == "assistant":
            calls = [call for call in message.tool_calls or () if call.id in results and _is_tool(call.function.name)]
            parts = [text_part(message.content)] if message.content else []
            parts += [call_part(call.id, call.function.name, _args_of(call)) for call in calls]
            told += [content_of("model", parts)] if parts else []
            answers = [response_part(c.id, c.function.name, as_object(results[c.id], "result")) for c in calls]
            told += [content_of("user", answers)] if answers else []
    return told


def _is_tool(name: str) -> bool:
    return is_fit(name) and not is_reserved(name)


def _args_of(call: Any) -> dict[str, Any]:
    return as_mapping(as_data(call.function.arguments)) or {}


def system_words(messages: Sequence[Any]) -> list[str]:
    """What a page says as system or developer."""
    return [_text(message.content) for message in messages if message.role in ("system", "developer")]


def _has_words(content: types.Content | None) -> bool:
    """Whether a message says something: a text, or a file."""
    parts = parts_of(content)
    return any(part.text or part.inline_data or part.file_data for part in parts)


def _text_of(content: types.Content | None) -> str:
    return "\n".join(part.text for part in parts_of(content) if part.text)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.text for part in content if part.type == "text")


def _parts_of(message: Any) -> list[types.Part]:
    """The parts of a user's message."""
    if isinstance(message.content, str):
        return [text_part(message.content)] if message.content else []
    return [_part(part) for part in message.content]


def _part(part: Any) -> types.Part:
    if part.type == "text":
        return text_part(part.text)
    source = part.source
    kind = source.mime_type or {"image": "image/png", "audio": "audio/wav", "video": "video/mp4"}.get(part.type)
    if source.type == "data":
        try:
            data = base64.b64decode(source.value, validate=True)
        except binascii.Error as error:
            raise InputValidationError(f"The {part.type} of a message is not base64.") from error
        return types.Part(inline_data=types.Blob(data=data, mime_type=kind or "application/octet-stream"))
    return types.Part(file_data=types.FileData(file_uri=source.value, mime_type=kind))


def _state_delta(given: Any, session: Session) -> dict[str, Any]:
    """What the page has changed of the state: keys without a prefix alone."""
    state: dict[str, Any] = dict(session.state)
    return {
        key: value
        for key, value in (as_mapping(given) or {}).items()
        if not key.startswith(CLOSED_PREFIXES) and (key not in state or state[key] != value)
    }
