"""Asking the user for the credentials that tool calls wait for: `adk_request_credential`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.parts import call_part
from flowloom.events.requests import CREDENTIAL_CALL
from flowloom.tools.request_record import request_event


def credential_event(ctx: InvocationContext, call_parts: Sequence[types.Part], results: Event) -> Event | None:
    """The request for credentials, one call for each that is needed, in call order; None if none is.

    Calls that need the same credential share a request, which names the first of them.
    """
    requested = results.actions.requested_auth_configs
    if not requested:
        return None
    parts: list[types.Part] = []
    asked: set[str] = set()
    for part in call_parts:
        call = part.function_call
        config: Any = None if call is None or call.id is None else requested.get(call.id)
        if call is None or config is None or config["credentialKey"] in asked:
            continue
        asked.add(config["credentialKey"])
        request_id = CLIENT_CALL_PREFIX + ctx.effects.new_id(ctx)
        parts.append(call_part(request_id, CREDENTIAL_CALL, {"functionCallId": call.id, "authConfig": config}))
    if not parts:
        return None
    role = results.content.role if results.content is not None else "user"
    return request_event(ctx, parts, {}, role or "user")
