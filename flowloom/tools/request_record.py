"""The record of a request to a person: whose it is, and a hash of the call that it is about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext, Run
from flowloom.events.actions import EventActions
from flowloom.events.event import Event
from flowloom.events.parts import content_of
from flowloom.events.requests import RequestIds
from flowloom.events.wire import make

PENDING = "pending_calls"
"""The key of a request's `agent_state` that holds, by request id, the owner and the hash of the call it is about."""


def request_event(
    ctx: InvocationContext,
    parts: list[types.Part],
    subjects: Mapping[str, types.FunctionCall],
    role: str = "model",
) -> Event:
    """The event by which an agent asks people, with a record of the call that each request is about.

    Nothing else makes an event that may (see `RequestIds`).
    """
    ids = RequestIds(part.function_call.id or "" for part in parts if part.function_call is not None)
    run: Run | None = ctx.run
    while run is not None:
        run.requests |= frozenset(ids)
        run = run.caller
    records = {request_id: {"owner": ctx.agent.name, "hash": call_hash(call)} for request_id, call in subjects.items()}
    values: dict[str, Any] = {"content": content_of(role, parts), "long_running_tool_ids": ids}
    if records:
        values["actions"] = make(EventActions, agent_state={PENDING: records})
    return ctx.new_event(values)


def call_hash(call: types.FunctionCall) -> str:
    """What a call's id, name and arguments come to: SHA-256 of their canonical JSON, in hex."""
    text = json.dumps([call.id, call.name, call.args], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
