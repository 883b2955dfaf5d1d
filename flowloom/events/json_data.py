"""What user code and models give, as the JSON data that the log holds: made once, before anything sees it.

JSON has no NaN and no infinities: they become the texts "NaN", "Infinity" and "-Infinity", which a number's validator
reads back. Half of a surrogate pair in a text becomes U+FFFD; bytes are base64; what else has no form is its `str()`.
"""

# pyright: reportUnknownVariableType=false
# JSON data is looked at by `type(x) is dict`; a cast after each look would cost a tenth of the time.

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_jsonable_python

from flowloom.errors import JsonDataError, error_text
from flowloom.events.actions import EventActions
from flowloom.events.event import Event
from flowloom.events.wire import fields_of, set_fields

MAX_DEPTH = 100
"""How deep lists and objects may be nested in each other. Readers of JSON end at about 200, the event included."""
_EVENT_DEPTH = MAX_DEPTH + 20  # what the engine writes around a call that a person is asked about
UNREADABLE = "$"
"""The one argument of a call whose arguments are no JSON object that can be kept; it holds them as text."""

_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
_DIGITS = 4300
_BIG, _SMALL = 10**_DIGITS, -(10**_DIGITS)
_NESTS = frozenset({dict, list})
_ADDRESS = re.compile(r"<.*\bat 0x[0-9a-fA-F]+>+", re.DOTALL)
_FREE_ACTIONS = ("agent_state", "render_ui_widgets", "set_model_response")
_FREE_FIELDS = ("custom_metadata", "output")


def as_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """`value` as JSON data that shares nothing with it. Raises `JsonDataError`, which says why JSON cannot hold it."""
    if is_json(value, depth):
        return to_jsonable_python(value)  # a copy, at the lowest price
    bare: list[str] = []

    def text_of(held: Any) -> str:
        text = str(held)
        if _ADDRESS.fullmatch(text):
            bare.append(type(held).__name__)
        return text

    try:
        data: Any = to_jsonable_python(
            value, by_alias=False, bytes_mode="base64", inf_nan_mode="strings", fallback=text_of
        )
        if bare and not _says_more(data):
            raise JsonDataError(
                f"it is an object of type {bare[0]}, of which there is nothing but its address. Give its data, as a "
                f"dict, a dataclass or a pydantic model"
            )
        return data if is_json(data, depth) else _mended(data, depth)
    except JsonDataError:
        raise
    except Exception as error:  # whatever an object does when it is asked for its data
        raise JsonDataError(_reason(error)) from error


def is_json(value: Any, left: int = MAX_DEPTH) -> bool:
    """Whether `value` is JSON data as it is, nested at most `left` deep."""
    kind = type(value)
    if kind is dict:
        try:
            names = "".join(value)
        except TypeError:
            return False
        if not (names.isascii() or _is_whole(names)):
            return False
        value = value.values()
    elif kind is not list:
        value, left = (value,), left + 1
    if not left:
        return False
    for each in value:  # each kind in turn, the usual ones first: this is looked at for each call and result
        kind = type(each)
        if kind is str:
            fits = each.isascii() or _is_whole(each)
        elif kind is int:
            fits = _SMALL < each < _BIG
        elif kind is float:
            fits = math.isfinite(each)
        elif kind in _NESTS:
            fits = is_json(each, left - 1)
        else:
            fits = each is None or kind is bool
        if not fits:
            return False
    return True


def json_arguments(args: Any) -> dict[str, Any] | None:
    """The arguments that a model gave a call; what is no JSON object that can be kept stands as text, under `$`."""
    if args is None or (type(args) is dict and is_json(args)):
        return args
    try:
        data = as_json(args)
    except JsonDataError:
        data = None
    if isinstance(data, dict):
        return cast(dict[str, Any], data)
    return {UNREADABLE: json.dumps(_cut(args, MAX_DEPTH))}


def keep_json(event: Event) -> None:
    """Make what user code has put on an event JSON data, in place. Raises `JsonDataError` that names the field."""
    content = event.content
    if content is not None and content.parts:
        for part in content.parts:
            call, response = part.function_call, part.function_response
            if call is not None and call.args and not is_json(call.args, _EVENT_DEPTH):
                set_fields(call, args=_field("the arguments of a call", call.args))
            elif response is not None and response.response and not is_json(response.response, _EVENT_DEPTH):
                set_fields(response, response=_field("the result of a call", response.response))
    for name in _FREE_FIELDS:
        value = fields_of(event)[name]
        if value is not None:
            set_fields(event, **{name: _field(f"`{name}`", value)})
    keep_json_actions(event.actions)


def keep_json_actions(actions: EventActions) -> None:
    """The same for what an event does. What cannot be kept is taken out before the error is raised."""
    values, failure = fields_of(actions), None
    if actions.state_delta:
        for key in list(actions.state_delta):
            try:
                keep_json_state(actions.state_delta, key)
            except JsonDataError as error:
                del actions.state_delta[key]
                failure = failure or error
    for name in _FREE_ACTIONS:
        if values[name] is not None:
            try:
                set_fields(actions, **{name: _field(f"`{name}`", values[name])})
            except JsonDataError as error:
                set_fields(actions, **{name: None})
                failure = failure or error
    if failure is not None:
        raise failure


def keep_json_state(state: dict[str, Any], key: Any) -> None:
    """The same for one value of a change of state; `temp:` values stay what they are: they are never stored."""
    value = state[key]
    if isinstance(key, str) and (key.startswith("temp:") or (is_json(value) and is_json(key))):
        return
    if not isinstance(key, str) or not _is_whole(key):
        raise JsonDataError(f"The key {key!r} of the state cannot be kept: a key is a text without lone surrogates.")
    state[key] = _field(f"The value of `{key}` in the state", value)


def _field(what: str, value: Any) -> Any:
    try:
        return as_json(value, _EVENT_DEPTH)
    except JsonDataError as error:
        raise JsonDataError(f"{what[0].upper()}{what[1:]} cannot be kept as JSON: {error}.") from error


def _mended(data: Any, left: int) -> Any:
    """Data that is nearly JSON: numbers and texts that JSON does not have are replaced."""
    if is_json(data, left):
        return data
    if isinstance(data, str):
        return without_halves(data)
    if isinstance(data, float):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    if isinstance(data, int):
        raise JsonDataError(f"it has an integer of more than {_DIGITS} digits")
    if not left:
        raise JsonDataError(_TOO_DEEP)
    if isinstance(data, dict):
        return {key: _mended(each, left - 1) for key, each in cast(dict[str, Any], data).items()}
    return [_mended(each, left - 1) for each in cast(list[Any], data)]


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it has a key with half of a surrogate pair, which no encoding has"
    reason = error_text(error)
    if "Circular reference" in reason:
        return "it holds itself"
    if "serialization depth" in reason:
        return _TOO_DEEP
    if isinstance(error, PydanticSerializationError):
        return reason.removeprefix("Error serializing to JSON: ")
    return reason if reason.startswith(type(error).__name__) else f"{type(error).__name__}: {reason}"


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _says_more(data: Any) -> bool:
    """Whether there is anything in it but the addresses of objects."""
    if isinstance(data, dict | list):
        held = cast("dict[str, Any] | list[Any]", data)
        return any(map(_says_more, held.values() if isinstance(held, dict) else held))
    return not (isinstance(data, str) and _ADDRESS.fullmatch(data))


def _cut(value: Any, left: int) -> Any:
    """`value` as far as JSON can hold it; what it cannot is three dots."""
    if isinstance(value, dict) and left:
        return {str(_cut(key, 0)): _cut(each, left - 1) for key, each in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple) and left:
        return [_cut(each, left - 1) for each in cast(list[Any], value)]
    try:
        return "..." if isinstance(value, dict | list | tuple) else as_json(value)
    except JsonDataError:
        return "..."


def without_halves(text: str) -> str:
    """A text with U+FFFD in the place of halves of surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
