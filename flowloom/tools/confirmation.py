"""What follows from tool results: requests for confirmation, and the structured final answer (spec §10.6, §15.4)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.parts import call_part, content_of, text_part
from flowloom.events.requests import CONFIRMATION_CALL
from flowloom.tools.credential_request import credential_event
from flowloom.tools.input_request import input_event
from flowloom.tools.output import SET_MODEL_RESPONSE
from flowloom.tools.request_record import request_event


def follow_ups(ctx: InvocationContext, call_parts: Sequence[types.Part], results: Event) -> list[Event]:
    """The events that come after the results of some calls: what a person is asked, and the final answer, if given."""
    actions = results.actions
    if not (
        actions.requested_auth_configs
        or actions.requested_tool_confirmations
        or actions.requested_inputs
        or actions.set_model_response is not None
    ):
        return []
    asked = [make(ctx, call_parts, results) for make in (credential_event, confirmation_event, input_event)]
    return [event for event in (*asked, structured_final_event(ctx, results)) if event is not None]


def confirmation_event(ctx: InvocationContext, call_parts: Sequence[types.Part], results: Event) -> Event | None:
    """The request for confirmation, one call for each call that asked, in call order; None if none asked."""
    requested = results.actions.requested_tool_confirmations
    if not requested:
        return None
    parts: list[types.Part] = []
    records: dict[str, types.FunctionCall] = {}
    for part in call_parts:
        call = part.function_call
        if call is None or call.id not in requested:
            continue
        request_id = CLIENT_CALL_PREFIX + ctx.effects.new_id(ctx)
        args = {
            "originalFunctionCall": call.model_dump(mode="json", by_alias=True, exclude_none=True),
            "toolConfirmation": requested[call.id].to_wire(),
        }
        records[request_id] = call
        request = call_part(request_id, CONFIRMATION_CALL, args)
        request.thought_signature = part.thought_signature
        parts.append(request)
    return request_event(ctx, parts, records) if parts else None


def structured_final_event(ctx: InvocationContext, results: Event) -> Event | None:
    """The final answer of a model that called `set_model_response` with arguments that fit."""
    output = results.actions.set_model_response
    for response in reversed(results.get_function_responses()):  # of several that fit, the last one counts
        given = response.response or {}  # a callback may have changed it; only an object is the result itself
        if response.name != SET_MODEL_RESPONSE or output is None or ("error" in given and given != output):
            continue
        text = json.dumps(given if isinstance(output, dict) else given.get("result", given), ensure_ascii=False)
        return ctx.new_event({"content": content_of("model", [text_part(text)])})
    return None
