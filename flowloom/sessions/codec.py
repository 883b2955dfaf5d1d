"""Events and state values as stores keep them: JSON text in ADK's form, read fast.

A log has few shapes of events. What they are made of is built here without a look at each value's annotation; an
event that holds anything else is read as any other event, by `read_event`. Both give the same (a property test).
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# JSON data is looked at by `type(x) is dict`; a cast after each look would cost a tenth of the time.

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pydantic_core
from google.genai import types
from pydantic import BaseModel

from flowloom.errors import JsonDataError, StorageError
from flowloom.events.actions import EventActions
from flowloom.events.event import Event
from flowloom.events.event_json import read_event, read_json
from flowloom.events.json_data import without_halves
from flowloom.events.json_reader import REFUSED, model_reader
from flowloom.events.requests import ForeignRequestIds, RequestIds
from flowloom.events.wire import (
    assemble,
    make,
    set_fields,
    share_keys,
    stored_fields,
)
from flowloom.objects.no_collection import NoCollection

_from_json = pydantic_core.from_json
_Get = Callable[[str], Any]
_FOREIGN = "foreignRequests"
"""The key in a stored event which says that its requests to people came from elsewhere, and ask no person."""


# -- writing ---------------------------------------------------------------------------------------


def encode_event(event: Event) -> str:
    """The JSON text of an event. A value that JSON cannot hold is given by its `repr`. Raises `JsonDataError`."""
    try:
        text = event.model_dump_json(by_alias=True, exclude_none=True, fallback=repr)
    except ValueError:  # halves of surrogate pairs, which no encoding has
        text = _written(event.to_wire, f"Event `{event.id}` of `{event.author}`")
    listed = event.long_running_tool_ids
    return text if listed is None or getattr(listed, "own", True) else f'{text[:-1]},"{_FOREIGN}":true}}'


def encode_value(value: Any) -> str:
    """The JSON text of a value of state, as it would be within an event. Raises `JsonDataError`."""
    try:
        return pydantic_core.to_json(value, by_alias=True, bytes_mode="base64", fallback=repr).decode()
    except ValueError:
        return _written(lambda: value, "A value of the state")


def _written(data: Callable[[], Any], what: str) -> str:
    """JSON text with U+FFFD in the place of halves of surrogate pairs."""
    try:
        text = json.dumps(data(), ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError) as error:
        raise JsonDataError(f"{what} cannot be kept as JSON: {error}.") from error
    return without_halves(text)


# -- reading ---------------------------------------------------------------------------------------


def decode_value(text: str) -> Any:
    """The value of a JSON text."""
    return _from_json(text)


def decode_event(text: str | bytes) -> Event:
    """The event of a JSON text that a store of flowloom's has written. Raises `StorageError` for what is none."""
    event = decode_foreign_event(text)
    if event.long_running_tool_ids:
        foreign = (event.__pydantic_extra__ or {}).pop(_FOREIGN, False)
        ids = ForeignRequestIds if foreign else RequestIds
        set_fields(event, long_running_tool_ids=ids(event.long_running_tool_ids))
    return event


def decode_foreign_event(text: str | bytes) -> Event:
    """The event of a JSON text that another program has written, whose requests to people are none. Raises
    `StorageError` for what is no event."""
    try:
        data: Any = _from_json(text)
        return _fast_event(data) or read_event(_object(data))[0]
    except (ValueError, TypeError):
        try:
            return read_event(_object(read_json(text, strict=False)))[0]
        except (ValueError, TypeError) as error:
            raise StorageError(
                f"A stored event cannot be read: {error}. Its text starts with {text[:80]!r}."
            ) from error


def _object(data: Any) -> dict[str, Any]:
    if type(data) is not dict:
        raise TypeError("it is not a JSON object")
    return data


def decode_events(
    rows: Sequence[tuple[str | bytes]], decode: Callable[[str | bytes], Event] = decode_event
) -> list[Event]:
    """The events of rows of one column. Raises `StorageError` for a text that is none."""
    if len(rows) < _MANY:
        return [decode(text) for (text,) in rows]
    with NoCollection():
        return [decode(text) for (text,) in rows]


_MANY = 500
_READ_PART = model_reader(types.Part)
_READ_USAGE = model_reader(types.GenerateContentResponseUsageMetadata)
_CONTENT: dict[str, Any] = stored_fields(model_reader(types.Content)({}, REFUSED))
_PART = stored_fields(share_keys(_READ_PART({}, REFUSED)))
_CALL: BaseModel = model_reader(types.FunctionCall)({}, REFUSED)
_RESPONSE: BaseModel = model_reader(types.FunctionResponse)({}, REFUSED)
_CALLS: dict[str, tuple[str, type[BaseModel], dict[str, Any], str]] = {
    "functionCall": ("function_call", types.FunctionCall, stored_fields(_CALL), "args"),
    "functionResponse": ("function_response", types.FunctionResponse, stored_fields(_RESPONSE), "response"),
}
_USAGE = stored_fields(share_keys(_READ_USAGE({}, REFUSED)))
_USAGE_PRIVATE: dict[str, Any] | None = _READ_USAGE({}, REFUSED).__pydantic_private__
_COUNTS = {
    "promptTokenCount": "prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "totalTokenCount": "total_token_count",
    "thoughtsTokenCount": "thoughts_token_count",
    "cachedContentTokenCount": "cached_content_token_count",
    "toolUsePromptTokenCount": "tool_use_prompt_token_count",
}
_EVENT = make(Event, actions=None, id="", timestamp=0.0)
_EVENT_VALUES: dict[str, Any] = stored_fields(_EVENT)
_EVENT_FIELDS = _EVENT.__pydantic_fields_set__
_ACTIONS = stored_fields(share_keys(make(EventActions)))
_ACTION_FIELDS = make(EventActions).__pydantic_fields_set__
# Shared by all that have these fields, as `replace` does: such a set only grows.
_CONTENT_GIVEN = {"parts", "role"}
_PART_GIVEN = {name: {name} for name in ("text", "function_call", "function_response")}
_CALL_GIVEN = {payload: {"id", "name", payload} for payload in ("args", "response")}
_LATEST = 4e9  # seconds, up to which a float tells microseconds apart


def _fast_event(data: Any) -> Event | None:
    """The event, if it is of the common shapes; else None."""
    try:
        event_id, invocation, author, time = data["id"], data["invocationId"], data["author"], data["timestamp"]
        content, actions = _content(data["content"]), _actions(data["actions"])
    except (KeyError, TypeError):
        return None
    if (
        content is None
        or actions is None
        or type(event_id) is not str
        or type(invocation) is not str
        or type(author) is not str
        or type(time) is not float
        or not 0 < time < _LATEST
    ):
        return None
    if int(time * 1e6 + 0.5) / 1e6 != time:  # whole microseconds, as nearly all are: `round` is slow
        time = round(time, 6)
    values = _EVENT_VALUES.copy()
    values["id"] = event_id
    values["invocation_id"] = invocation
    values["author"] = author
    values["timestamp"] = time
    values["content"] = content
    values["actions"] = actions
    if len(data) > 6 and not _rest(data, values):
        return None
    return assemble(Event, values, _EVENT_FIELDS, {}, None)


def _rest(data: dict[str, Any], values: dict[str, Any]) -> bool:
    """Read what events have beside the common fields. False if there is more than is known here."""
    for key, value in data.items():
        if key not in _COMMON:
            name, read = _MORE.get(key, _UNKNOWN)
            made = read(value)
            if made is None:
                return False
            values[name] = made
    return True


def _usage(data: Any) -> Any:
    """Usage, quickly if it is nothing but the usual counts."""
    if type(data) is not dict:
        return None
    values = _USAGE.copy()
    given: set[str] = set()
    for key, count in data.items():
        name = _COUNTS.get(key)
        if name is None or type(count) is not int:
            return _READ_USAGE(data, REFUSED)
        values[name] = count
        given.add(name)
    return assemble(
        types.GenerateContentResponseUsageMetadata, values, given, None, _USAGE_PRIVATE and _USAGE_PRIVATE.copy()
    )


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _texts(value: Any) -> list[str] | None:
    return value if type(value) is list and all(type(each) is str for each in value) else None


_COMMON = frozenset(["id", "invocationId", "author", "timestamp", "content", "actions"])
_UNKNOWN: tuple[str, Callable[[Any], Any]] = ("", lambda value: None)
_MORE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "usageMetadata": ("usage_metadata", _usage),
    "finishReason": ("finish_reason", dict[Any, Any](types.FinishReason._value2member_map_).get),
    "longRunningToolIds": ("long_running_tool_ids", _texts),
    "modelVersion": ("model_version", _text),
    "branch": ("branch", _text),
    "isolationScope": ("isolation_scope", _text),
}


def _content(value: Any) -> types.Content | None:
    role, items = value["role"], value["parts"]
    if len(value) != 2 or type(role) is not str or type(items) is not list:
        return None
    parts: list[types.Part] = []
    for item in items:
        if type(item) is not dict:
            return None
        parts.append((_part(item) if len(item) == 1 else None) or _READ_PART(item, REFUSED))
    values = _CONTENT.copy()
    values["parts"] = parts
    values["role"] = role
    return assemble(types.Content, values, _CONTENT_GIVEN, None, None)


def _part(item: dict[str, Any]) -> types.Part | None:
    """A part that is a text, a call or a response, and nothing else."""
    name, made = "text", item.get("text")
    if type(made) is not str:
        [(key, value)] = item.items()
        if key not in _CALLS:
            return None
        name, cls, defaults, payload = _CALLS[key]
        made = _of_call(value, cls, defaults, payload)
        if made is None:
            return None
    values = _PART.copy()
    values[name] = made
    return assemble(types.Part, values, _PART_GIVEN[name], None, None)


def _of_call(data: Any, cls: type[BaseModel], defaults: dict[str, Any], payload: str) -> Any:
    """A call or a response that has an id, a name and a payload, and nothing else."""
    if type(data) is not dict or len(data) != 3:
        return None
    get: _Get = data.get
    call_id, name, given = get("id"), get("name"), get(payload)
    if type(call_id) is not str or type(name) is not str or type(given) is not dict:
        return None
    values = defaults.copy()
    values["id"] = call_id
    values["name"] = name
    values[payload] = given
    return assemble(cls, values, _CALL_GIVEN[payload], None, None)


def _actions(value: Any) -> EventActions | None:
    """Actions that change state, or do nothing."""
    if type(value) is not dict or len(value) != 4:
        return None
    delta, artifacts = value["stateDelta"], value["artifactDelta"]
    auth, confirmations = value["requestedAuthConfigs"], value["requestedToolConfirmations"]
    if type(delta) is not dict or not artifacts == auth == confirmations == {}:
        return None
    values = _ACTIONS.copy()
    values["state_delta"] = delta
    values["artifact_delta"] = artifacts
    values["requested_auth_configs"] = auth
    values["requested_tool_confirmations"] = confirmations
    return assemble(EventActions, values, _ACTION_FIELDS, {}, None)
