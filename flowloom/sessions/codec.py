"""Events and state values as stores keep them: JSON text in ADK's form, read fast.

A log has few shapes of events. What they are made of is built here without a look at each value's annotation; an
event that holds anything else is read as any other event, by `read_event`. Both give the same (a property test).
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# JSON data is looked at by `type(x) is dict`; a cast after each look would cost a tenth of the time.

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pydantic_core
from google.genai import types
from pydantic import BaseModel

from flowloom.errors import StorageError
from flowloom.events.actions import EventActions
from flowloom.events.event import Event
from flowloom.events.event_json import read_event, read_json
from flowloom.events.json_reader import model_reader

_from_json = pydantic_core.from_json
_Get = Callable[[str], Any]


# -- writing ---------------------------------------------------------------------------------------


def encode_event(event: Event) -> str:
    """The JSON text of an event. A value that JSON cannot hold is given by its `repr`."""
    try:
        return event.model_dump_json(by_alias=True, exclude_none=True, fallback=repr)
    except ValueError:  # halves of surrogate pairs, which no encoding has
        return _whole_text(json.dumps(event.to_wire(), ensure_ascii=False, default=repr))


def encode_value(value: Any) -> str:
    """The JSON text of a value of state, as it would be within an event."""
    try:
        return pydantic_core.to_json(value, by_alias=True, bytes_mode="base64", fallback=repr).decode()
    except ValueError:
        return _whole_text(json.dumps(value, ensure_ascii=False, default=repr))


def _whole_text(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# -- reading ---------------------------------------------------------------------------------------


def decode_value(text: str) -> Any:
    """The value of a JSON text."""
    return _from_json(text)


def decode_event(text: str | bytes) -> Event:
    """The event of a JSON text. Raises `StorageError` for what is none."""
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


def decode_events(rows: Sequence[tuple[str | bytes]]) -> list[Event]:
    """The events of rows of one column. Raises `StorageError` for a text that is none."""
    if len(rows) < _MANY:
        return [decode_event(text) for (text,) in rows]
    with _NoCollection():
        return [decode_event(text) for (text,) in rows]


class _NoCollection:
    """Holds off the garbage collector, in any number of threads at once.

    It would look through all that is being made, again and again, and find nothing: for many events, that is three
    quarters of the time.
    """

    _lock = threading.Lock()
    _users = 0
    _was_on = False

    def __enter__(self) -> None:
        cls = _NoCollection
        with cls._lock:
            if not cls._users:
                cls._was_on = gc.isenabled()
                gc.disable()
            cls._users += 1

    def __exit__(self, *error: object) -> None:
        cls = _NoCollection
        with cls._lock:
            cls._users -= 1
            if not cls._users and cls._was_on:
                gc.enable()


_MANY = 500
_READ_PART = model_reader(types.Part)
_READ_USAGE = model_reader(types.GenerateContentResponseUsageMetadata)
_CONTENT: dict[str, Any] = vars(model_reader(types.Content)({}, False))
_PART: dict[str, Any] = vars(model_reader(types.Part)({}, False))
_CALL: dict[str, Any] = vars(model_reader(types.FunctionCall)({}, False))
_RESPONSE: dict[str, Any] = vars(model_reader(types.FunctionResponse)({}, False))
_USAGE: dict[str, Any] = vars(_READ_USAGE({}, False))
_USAGE_PRIVATE: dict[str, Any] | None = _READ_USAGE({}, False).__pydantic_private__
_COUNTS = {
    "promptTokenCount": "prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "totalTokenCount": "total_token_count",
    "thoughtsTokenCount": "thoughts_token_count",
    "cachedContentTokenCount": "cached_content_token_count",
    "toolUsePromptTokenCount": "tool_use_prompt_token_count",
}
_EVENT = Event.unvalidated({"actions": None, "id": "", "timestamp": 0.0})
_EVENT_VALUES: dict[str, Any] = vars(_EVENT)
_EVENT_FIELDS = _EVENT.__pydantic_fields_set__
_ACTIONS: dict[str, Any] = vars(EventActions.unvalidated({}))
_ACTION_FIELDS = EventActions.unvalidated({}).__pydantic_fields_set__
# Shared by all that have these fields, as `shallow_copy` does: such a set only grows.
_CONTENT_GIVEN = {"parts", "role"}
_PART_GIVEN = {name: {name} for name in ("text", "function_call", "function_response")}
_CALL_GIVEN = {payload: {"id", "name", payload} for payload in ("args", "response")}
_FINISH_REASONS: dict[Any, Any] = dict(types.FinishReason._value2member_map_)
_LATEST = 253402300800.0

# a third quicker than `object.__setattr__`, which looks them up by name
_new = object.__new__
_set_dict: Any = BaseModel.__dict__["__dict__"].__set__
_set_given: Any = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra: Any = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private: Any = BaseModel.__dict__["__pydantic_private__"].__set__


def _fast_event(data: Any) -> Event | None:
    """The event, if it is of the common shapes; else None."""
    if type(data) is not dict:
        return None
    get: _Get = data.get
    event_id, invocation, author, time = get("id"), get("invocationId"), get("author"), get("timestamp")
    if (
        type(event_id) is not str
        or type(invocation) is not str
        or type(author) is not str
        or type(time) is not float
        or not 0 < time < _LATEST
    ):
        return None
    content, actions = _content(get("content")), _actions(get("actions"))
    if content is None or actions is None:
        return None
    values = _EVENT_VALUES.copy()
    values["id"] = event_id
    values["invocation_id"] = invocation
    values["author"] = author
    values["timestamp"] = round(time, 6)
    values["content"] = content
    values["actions"] = actions
    left = len(data) - 6
    if left and not _rest(get, left, values):
        return None
    new = _new(Event)
    _set_dict(new, values)
    _set_given(new, _EVENT_FIELDS)
    _set_extra(new, {})
    _set_private(new, None)
    return new


def _rest(get: _Get, left: int, values: dict[str, Any]) -> bool:
    """Read what answers of a model have beside their content. False if there is more."""
    usage: Any = get("usageMetadata")
    if usage is not None:
        if type(usage) is not dict:
            return False
        values["usage_metadata"] = _usage(usage) or _READ_USAGE(usage, False)
        left -= 1
    reason = get("finishReason")
    if reason is not None:
        member = _FINISH_REASONS.get(reason) if type(reason) is str else None
        if member is None:
            return False
        values["finish_reason"] = member
        left -= 1
    for key, name in _TEXTS:
        text = get(key)
        if text is not None:
            if type(text) is not str:
                return False
            values[name] = text
            left -= 1
    return not left


def _usage(data: dict[str, Any]) -> types.GenerateContentResponseUsageMetadata | None:
    """Usage that is nothing but the usual counts."""
    values = _USAGE.copy()
    given: set[str] = set()
    for key, count in data.items():
        name = _COUNTS.get(key)
        if name is None or type(count) is not int:
            return None
        values[name] = count
        given.add(name)
    new = _new(types.GenerateContentResponseUsageMetadata)
    _set_dict(new, values)
    _set_given(new, given)
    _set_extra(new, None)
    _set_private(new, _USAGE_PRIVATE and _USAGE_PRIVATE.copy())
    return new


_TEXTS = (("modelVersion", "model_version"), ("branch", "branch"), ("isolationScope", "isolation_scope"))


def _content(value: Any) -> types.Content | None:
    if type(value) is not dict or len(value) != 2:
        return None
    get: _Get = value.get
    role, items = get("role"), get("parts")
    if type(role) is not str or type(items) is not list:
        return None
    parts: list[types.Part] = []
    for item in items:
        if type(item) is not dict:
            return None
        parts.append((_part(item) if len(item) == 1 else None) or _READ_PART(item, False))
    values = _CONTENT.copy()
    values["parts"] = parts
    values["role"] = role
    new = _new(types.Content)
    _set_dict(new, values)
    _set_given(new, _CONTENT_GIVEN)
    _set_extra(new, None)
    _set_private(new, None)
    return new


def _part(item: dict[str, Any]) -> types.Part | None:
    """A part that is a text, a call or a response, and nothing else."""
    [(key, value)] = item.items()
    if key == "text":
        name, made = key, value if type(value) is str else None
    elif key == "functionCall":
        name, made = "function_call", _of_call(value, types.FunctionCall, _CALL, "args")
    elif key == "functionResponse":
        name, made = "function_response", _of_call(value, types.FunctionResponse, _RESPONSE, "response")
    else:
        return None
    if made is None:
        return None
    values = _PART.copy()
    values[name] = made
    new = _new(types.Part)
    _set_dict(new, values)
    _set_given(new, _PART_GIVEN[name])
    _set_extra(new, None)
    _set_private(new, None)
    return new


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
    new = _new(cls)
    _set_dict(new, values)
    _set_given(new, _CALL_GIVEN[payload])
    _set_extra(new, None)
    _set_private(new, None)
    return new


def _actions(value: Any) -> EventActions | None:
    """Actions that change state, or do nothing."""
    if type(value) is not dict or len(value) != 4:
        return None
    get: _Get = value.get
    delta, artifacts = get("stateDelta"), get("artifactDelta")
    auth, confirmations = get("requestedAuthConfigs"), get("requestedToolConfirmations")
    if type(delta) is not dict or artifacts != {} or auth != {} or confirmations != {}:
        return None
    values = _ACTIONS.copy()
    values["state_delta"] = delta
    values["artifact_delta"] = artifacts
    values["requested_auth_configs"] = auth
    values["requested_tool_confirmations"] = confirmations
    new = _new(EventActions)
    _set_dict(new, values)
    _set_given(new, _ACTION_FIELDS)
    _set_extra(new, {})
    _set_private(new, None)
    return new
