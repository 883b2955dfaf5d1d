"""Requests to a person: the calls by which the engine asks for a decision, for input or for a credential."""

from __future__ import annotations

from typing import Final, Literal

CONFIRMATION_CALL: Final = "adk_request_confirmation"
"""The call that asks a person to decide about a tool call."""
INPUT_CALL: Final = "adk_request_input"
"""The call that asks a person for input."""
CREDENTIAL_CALL: Final = "adk_request_credential"
"""The call that asks a user for a credential."""

RequestKind = Literal["confirmation", "input", "credential"]

RESERVED_CALLS: Final[dict[str | None, RequestKind]] = {
    CONFIRMATION_CALL: "confirmation",
    INPUT_CALL: "input",
    CREDENTIAL_CALL: "credential",
}
"""What each reserved name asks for."""
