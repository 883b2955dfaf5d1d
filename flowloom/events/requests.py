"""Requests to a person: the calls by which the engine asks for a decision, for input or for a credential."""

from __future__ import annotations

import logging
from collections.abc import Set as AbstractSet
from typing import Final, Literal

from google.genai import types

from flowloom.events.event import Event
from flowloom.events.parts import parts_of
from flowloom.events.wire import replace

_log = logging.getLogger("flowloom.flow")

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


class RequestIds(list[str]):
    """The `long_running_tool_ids` of an event by which the engine asks people.

    An event that a callback, a client or a file gives has a plain list, and is no request in a log: what a run records
    lists its requests no more, what is appended or imported is `ForeignRequestIds` there, in every store.
    """

    own = True


class ForeignRequestIds(RequestIds):
    """The `long_running_tool_ids` of an event that came from elsewhere, whose requests to people are history."""

    own = False


def is_request(event: Event, call: types.FunctionCall) -> bool:
    """Whether a call of an event asks a person for something: the engine lists its id in `long_running_tool_ids`.

    Only the engine does. A call of that name by a model is no request.
    """
    return looks_like_request(event, call) and getattr(event.long_running_tool_ids, "own", True)


def looks_like_request(event: Event, call: types.FunctionCall) -> bool:
    """Whether a call is a request of the engine's, or one that came from elsewhere and is history."""
    listed = event.long_running_tool_ids
    return bool(listed) and call.name in RESERVED_CALLS and call.id in listed


def without_requests(event: Event, made: AbstractSet[str | None]) -> Event:
    """The event without requests to people that the engine did not make: it lists them no more.

    Those that it has `made` stay, in an event that a plugin or an agent of one's own has built anew.
    """
    foreign = foreign_requests(event)
    if not foreign:
        return event
    forged = foreign - made
    if forged:
        _log.warning("Event `%s` of `%s` asks people, which only the engine does.", event.id, event.author)
    listed = [each for each in event.long_running_tool_ids or () if each not in forged]
    return replace(event, long_running_tool_ids=RequestIds(listed) or None)


def foreign_requests(event: Event) -> set[str | None]:
    """The ids that an event lists as requests to people, if the engine did not make it."""
    listed = event.long_running_tool_ids
    if not listed or isinstance(listed, RequestIds):
        return set()
    named = [part.function_call or part.function_response for part in parts_of(event.content)]
    return {each.id for each in named if each is not None and each.name in RESERVED_CALLS}.intersection(listed)
