"""Events that a client brings: what of another session's log may be taken over (server spec §3, importing)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from flowloom.errors import EventParseError
from flowloom.events import Event, EventActions
from flowloom.events.event_json import validated_event
from flowloom.events.requests import RESERVED_CALLS
from flowloom.events.wire import fields_of, replace
from flowloom.server.problems import ProblemError
from flowloom.server.wire import INTERNAL

_TAKEN = {"state_delta", "artifact_delta", "transfer_to_agent", "end_of_agent", "skip_summarization"}
_EMPTY = fields_of(EventActions())


def restored_events(given: Iterable[Any]) -> list[Event]:
    """The events of JSON objects. Raises `ProblemError` (400) for what is no event, and for one that could stand for
    a person's approval or for a credential, or has the id of another one: nothing is stored then."""
    events = [_restored(index, data) for index, data in enumerate(given)]
    first: dict[str, int] = {}
    for index, event in enumerate(events):
        before = first.setdefault(event.id, index) if event.id else index
        if event != events[before]:
            raise _refused(index, f"event {before} has its id `{event.id}`, too")
    return events


def _restored(index: int, data: Any) -> Event:
    if not isinstance(data, dict):
        raise _refused(index, "it is no object")
    try:
        event = validated_event(cast(dict[str, Any], data))
    except EventParseError as error:
        raise _refused(index, str(error)) from error
    if event.long_running_tool_ids:
        raise _refused(index, "it has long-running tool ids")
    actions = {**fields_of(event.actions), **(event.actions.model_extra or {})}
    wrong = sorted(name for name, value in actions.items() if name not in _TAKEN and value != _EMPTY.get(name))
    if wrong:
        raise _refused(index, f"its actions have `{wrong[0]}`")
    named = [each.name for each in (*event.get_function_calls(), *event.get_function_responses())]
    reserved = [name for name in named if name in RESERVED_CALLS]
    if reserved:
        raise _refused(index, f"it has a call or response of `{reserved[0]}`")
    metadata = event.custom_metadata
    if metadata is not None and any(key.startswith(INTERNAL) for key in metadata):
        return replace(event, custom_metadata={k: v for k, v in metadata.items() if not k.startswith(INTERNAL)})
    return event


def _refused(index: int, reason: str) -> ProblemError:
    return ProblemError(400, "invalid_event", f"Event {index} cannot be taken over: {reason}.")
