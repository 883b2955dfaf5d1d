"""What a person is asked in a run, as the protocol's interrupts (protocols spec §5)."""

from __future__ import annotations

from typing import Any

from flowloom.protocols.ag_ui.data import as_mapping
from flowloom.protocols.ag_ui.sdk import core
from flowloom.run_stream import ConfirmationRequested, CredentialRequested, InputRequested

Request = ConfirmationRequested | InputRequested | CredentialRequested
_APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"confirmed": {"type": "boolean"}},
    "required": ["confirmed"],
}


def interrupt_of(event: Request, subagent: str | None) -> Any:
    """The interrupt of a request, which `subagent` makes if no agent of the run itself does."""
    told: dict[str, Any] = {"id": event.request_id}
    metadata: dict[str, Any] = {"agent": event.agent}
    if isinstance(event, ConfirmationRequested):
        told["reason"], told["tool_call_id"] = "tool_approval", event.call_id
        told["message"], told["response_schema"] = event.hint or f"May `{event.name}` be called?", _APPROVAL
        metadata |= {"name": event.name, "args": event.args, "payload": event.payload}
    elif isinstance(event, InputRequested):
        told["reason"], told["message"] = "input_required", event.message
        told["response_schema"] = as_mapping(event.schema)
        metadata["payload"] = event.payload
    else:
        told["reason"], told["tool_call_id"], told["message"] = "auth_required", event.call_id, "A login is needed."
        metadata |= {"authUri": event.auth_uri, "authConfig": event.auth_config}
    if subagent is not None:
        told["subagent_run_id"] = subagent
    return core.Interrupt(**told, metadata=metadata)
