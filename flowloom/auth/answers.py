"""What users answer to requests for a credential, and messages without the secrets in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.genai import types

from flowloom.events.event import Event
from flowloom.events.parts import content_of, parts_of, response_part
from flowloom.events.requests import CREDENTIAL_CALL

RECEIVED: Final = {"status": "received"}
"""What is stored of an answer."""


@dataclass(slots=True, eq=False, repr=False)
class AuthAnswer:
    """A user's answer to the request `request_id`: secrets, which are kept in memory only.

    `response` is what the user's function response holds.
    """

    request_id: str
    response: Mapping[str, Any] = field(repr=False)


def redact_message(
    content: types.Content, requests: Collection[str | None] = ()
) -> tuple[types.Content, list[AuthAnswer]]:
    """The user's message `content` as it may be stored and shown, and the answers to requests for a credential that
    were in it: those of that name, and those whose id is one of `requests`.

    Nothing of an answer is left but that there was one. A message without such answers is returned as it is.
    """

    def is_answer(part: types.Part) -> bool:
        response = part.function_response
        return response is not None and (response.name == CREDENTIAL_CALL or response.id in requests)

    if not any(map(is_answer, content.parts or ())):
        return content, []
    answers: list[AuthAnswer] = []
    parts: list[types.Part] = []
    for part in content.parts or ():
        response = part.function_response
        if response is None or not is_answer(part):
            parts.append(part)
            continue
        if response.id and response.response != RECEIVED:
            answers.append(AuthAnswer(response.id, response.response or {}))
        parts.append(response_part(response.id, CREDENTIAL_CALL, dict(RECEIVED)))
    return content_of(content.role, parts), answers


def credential_requests(events: Sequence[Event], message: types.Content | None) -> set[str]:
    """The ids of answers in a message that belong to requests for a credential, open or not, whatever their name."""
    answers = [part.function_response for part in parts_of(message) if part.function_response]
    wanted = {answer.id for answer in answers if answer.id and answer.name != CREDENTIAL_CALL}
    found: set[str] = set()
    for event in reversed(events) if wanted else ():
        for call in event.get_function_calls():
            if call.id in wanted:
                wanted.discard(call.id)
                if call.name == CREDENTIAL_CALL:
                    found.add(call.id)
        if not wanted:
            break
    return found
