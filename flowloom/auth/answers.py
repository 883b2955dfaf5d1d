"""What users answer to requests for a credential, and messages without the secrets in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.genai import types

from flowloom.events.parts import content_of, response_part
from flowloom.events.requests import CREDENTIAL_CALL

RECEIVED: Final = {"status": "received"}
"""What is stored of an answer."""


@dataclass(frozen=True, slots=True)
class AuthAnswer:
    """A user's answer to the request `request_id`: secrets, which are kept in memory only."""

    request_id: str
    response: Mapping[str, Any] = field(repr=False)


def redact_message(content: types.Content) -> tuple[types.Content, list[AuthAnswer]]:
    """A user's message as it may be stored and shown, and the answers to requests for a credential that were in it.

    Nothing of an answer is left but that there was one. A message without such answers is returned as it is.
    """
    for part in content.parts or ():
        if part.function_response is not None and part.function_response.name == CREDENTIAL_CALL:
            break
    else:
        return content, []
    answers: list[AuthAnswer] = []
    parts: list[types.Part] = []
    for part in content.parts or ():
        response = part.function_response
        if response is None or response.name != CREDENTIAL_CALL:
            parts.append(part)
            continue
        if response.id and response.response != RECEIVED:
            answers.append(AuthAnswer(response.id, response.response or {}))
        parts.append(response_part(response.id, CREDENTIAL_CALL, dict(RECEIVED)))
    return content_of(content.role, parts), answers
