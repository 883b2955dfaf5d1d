"""What a caller's message answers of what a task waits for (protocols spec §4): approvals by a clear yes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from google.genai import types

from flowloom.events.parts import as_object, response_part
from flowloom.protocols.a2a.parts import KIND, RESPONSE, received_part, text_of
from flowloom.protocols.a2a.sdk import Message, Part, plain
from flowloom.runner import PendingCall, answers
from flowloom.schemas.words import value_of_words

_YES = frozenset({"yes", "y", "approve", "approved", "ok"})
_NO = frozenset({"no", "n", "reject"})
Data = dict[str, Any]


def content_of_message(message: Message) -> types.Content | None:
    """A caller's message as the user's; None if it says nothing."""
    parts = [part for part in map(received_part, message.parts) if part is not None]
    parts = [part for part in parts if not part.thought]
    return types.Content(role="user", parts=parts) if parts else None


def reply_of(message: Message, waiting: Sequence[PendingCall]) -> types.Content | None:
    """The answers in a message to what is `waiting`; None if it is a new message, and all of that waits on."""
    given = [each for part in message.parts if (each := _data_answer(part, waiting)) is not None]
    if given:
        return answers(*given)
    words = text_of(message.parts).strip()
    if len(waiting) != 1 or not words:
        return None
    answer = _words_answer(words, waiting[0])
    return None if answer is None else answers(answer)


def _data_answer(part: Part, waiting: Sequence[PendingCall]) -> types.Part | None:
    """The answer that a part of data gives: `{id?, confirmed | value}`, or a function response of google-adk's."""
    if part.WhichOneof("content") != "data":
        return None
    data: Any = plain(part.data)
    if not isinstance(data, dict):
        return _bare(data, waiting)
    given = cast(Data, data)
    call_id = given.get("id")
    named = [each for each in waiting if each.id == call_id] if call_id is not None else list(waiting)
    if len(named) != 1:
        return None
    pending = named[0]
    marks: Data = plain(part.metadata) if part.HasField("metadata") else {}
    if marks.get(KIND) == RESPONSE and "response" in given:
        return _called_back(pending, given["response"])
    if "confirmed" in given:
        return _decision(pending, given["confirmed"])
    if "value" in given:
        return _value(pending, given["value"])
    return _bare(given, waiting) if call_id is None and KIND not in marks else None


def _bare(data: Any, waiting: Sequence[PendingCall]) -> types.Part | None:
    """The answer to a question, as data and nothing around it."""
    return waiting[0].reply(data) if len(waiting) == 1 and waiting[0].kind == "input" else None


def _called_back(pending: PendingCall, response: Any) -> types.Part | None:
    """A function response as google-adk sends it."""
    if pending.kind == "confirmation":
        said = cast(Data, response) if isinstance(response, dict) else {}
        return _decision(pending, said.get("confirmed"))
    if pending.kind == "credential":
        return response_part(pending.id, "adk_request_credential", as_object(response, "result"))
    if pending.kind == "input":
        return response_part(pending.id, "adk_request_input", as_object(response, "result"))
    return pending.reply(response)


def _decision(pending: PendingCall, confirmed: Any) -> types.Part | None:
    """A decision about a call: true and false decide, words do as they do alone."""
    if pending.kind != "confirmation":
        return None
    if isinstance(confirmed, str):
        return _words_answer(confirmed, pending)
    if not isinstance(confirmed, bool):
        return None
    return pending.approve() if confirmed else pending.reject()


def _value(pending: PendingCall, value: Any) -> types.Part | None:
    if pending.kind == "confirmation":
        return _decision(pending, value)
    if pending.kind == "credential":
        return pending.consent(value) if isinstance(value, str) else None
    return pending.reply(value)


def _words_answer(words: str, pending: PendingCall) -> types.Part | None:
    """What plain words answer: a question, or a decision if they are nothing but a clear yes or no."""
    if pending.kind == "input":
        return pending.reply(value_of_words(words, pending.response_schema))
    if pending.kind == "confirmation":
        said = words.strip().strip(".!").lower()
        return pending.approve() if said in _YES else pending.reject() if said in _NO else None
    if pending.kind == "credential" and words.startswith(("https://", "http://")) and len(words.split()) == 1:
        return pending.consent(words)
    return None
