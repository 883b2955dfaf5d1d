"""The record of a request to a person: whose it is, and a hash of the call that it is about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.actions import EventActions

PENDING = "pending_calls"
"""The key of a request's `agent_state` that holds, by request id, the owner and the hash of the call it is about."""


def records_of(ctx: InvocationContext, asked: Mapping[str, types.FunctionCall]) -> EventActions:
    """The actions of an event that asks, with a record for each request id."""
    records = {request_id: {"owner": ctx.agent.name, "hash": call_hash(call)} for request_id, call in asked.items()}
    return EventActions.unvalidated({"agent_state": {PENDING: records}})


def call_hash(call: types.FunctionCall) -> str:
    """What a call's id, name and arguments come to: SHA-256 of their canonical JSON, in hex."""
    text = json.dumps([call.id, call.name, call.args], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
