"""Pydantic types from JSON data without pydantic's validation, by readers that are made once for each type.

A reader checks the type of every value that it takes, so that what it makes is as good as what validation makes. What
becomes of what it cannot take is said by the `Rest` that it is given.
"""

from __future__ import annotations

import base64
import functools
import types as python_types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import pydantic

from flowloom.errors import quoted_list
from flowloom.events.wire import WireModel, folded_name, make, set_extra, set_given


class Rest:
    """What becomes of what readers cannot take: it is refused."""

    def unknown(self, data: dict[str, Any], key: str) -> None:
        """An object of a type of google-genai has a field that the type does not have."""
        raise ValueError(f"`{key}` is not known")

    def unfit(self, data: Any, key: str | int, error: Exception) -> None:
        """In an object or a list, the value at `key` is of a wrong type: reading it has raised `error`."""
        raise ValueError(problem_of(error)) from error


class LeftOut(Rest):
    """Fields that are not known are left out."""

    def unknown(self, data: dict[str, Any], key: str) -> None:
        pass


REFUSED, LEFT_OUT = Rest(), LeftOut()
Read = Callable[[Any, Rest], Any]
"""Makes a value from JSON data. Raises `ValueError` or `TypeError` for what it cannot take."""

API_NAMES = {"citationSources": "citations"}
"""Names that the Gemini API has for fields, and google-genai's."""


def problem_of(error: Exception) -> str:
    """What is wrong with a value, as the error says that reading it has raised."""
    if isinstance(error, pydantic.ValidationError):
        return "; ".join(dict.fromkeys(problem["msg"] for problem in error.errors()))
    return str(error)


@functools.cache
def model_reader(model: type[pydantic.BaseModel]) -> Read:
    """The reader of a type, made once."""
    # Only the types of events and responses are ever read, so the cache cannot grow beyond them.
    return reader_of(model, {})


def reader_of(model: type[pydantic.BaseModel], special: Mapping[str, Read]) -> Read:
    """The reader of a type of google-genai, or of one of flowloom's own, which keep what they do not know.

    Null is as if not given. `special` has the readers of fields that the type validates in a way of its own; they are
    given nulls too. The names of flowloom's own types are taken in camelCase and snake_case, and in any other case
    where neither fits (spec §0.6).
    """
    fields = _fields_of(model, special)
    own = issubclass(model, WireModel)
    folded = {folded_name(name): entry for name, entry in fields.items() if own}
    required = {name for name, field in model.model_fields.items() if field.is_required()}

    def read(data: Any, rest: Rest) -> Any:
        given: dict[str, Any] = data
        if not isinstance(data, dict):
            return model.model_validate(data)
        values: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, value in given.items():
            known = fields.get(key) or folded.get(folded_name(key))
            if known is None:
                if own:
                    unknown[key] = value
                else:
                    rest.unknown(given, key)
            elif value is not None or known[0] in special:
                name, read_value = known
                try:
                    values[name] = value if read_value is None else read_value(value, rest)
                except (ValueError, TypeError) as error:
                    rest.unfit(given, key, error)
        if required and not required <= values.keys():
            raise ValueError(f"it lacks {quoted_list(sorted(required - values.keys()))}")
        new = make(model, values)
        if own:
            set_extra(new, unknown)
        else:
            set_given(new, set(values))
        return new

    return read


def _fields_of(model: type[pydantic.BaseModel], special: Mapping[str, Read]) -> dict[str, tuple[str, Read | None]]:
    fields: dict[str, tuple[str, Read | None]] = {}
    for name, field in model.model_fields.items():
        entry = (name, special[name] if name in special else _reader(field.annotation))
        fields[name] = fields[field.alias or name] = entry
    fields |= {alias: fields[name] for alias, name in API_NAMES.items() if name in fields}
    return fields


def _reader(annotation: Any) -> Read | None:
    """How to read a JSON value of that type; None for JSON that is taken as it is."""
    union = typing.get_origin(annotation) in (typing.Union, python_types.UnionType)
    options = [option for option in typing.get_args(annotation) if option is not type(None)] if union else [annotation]
    kind: Any = options[0] if len(options) == 1 else None
    origin = typing.get_origin(kind)
    if origin is list:
        return _reader_of_each(kind, list)
    if kind is dict or origin is dict:
        return _reader_of_each(kind, dict)
    if kind is Any:
        return None
    if isinstance(kind, type):
        if issubclass(kind, pydantic.BaseModel):
            # made when needed: types refer to each other in circles
            return lambda value, rest: model_reader(kind)(value, rest)
        if issubclass(kind, Enum):
            members: dict[Any, Any] = dict(kind._value2member_map_)
            return lambda value, rest: _member(kind, members, value)
        if kind is bytes:
            return _read_bytes
        if kind in (str, int, float, bool):
            # 64-bit numbers may come as text, whole floats as integers.
            return lambda value, rest: value if type(value) is kind else _adapter(kind).validate_python(value)
    return lambda value, rest: _adapter(annotation).validate_python(value)


def _member(kind: type[Enum], members: Mapping[Any, Any], value: Any) -> Any:
    """The member; in another case; or google-genai's stand-in for one that it does not know, without its warning."""
    if not isinstance(value, str):
        raise TypeError(f"the value of an enum is a text, not {value!r}")
    found = members.get(value)
    if found is not None:
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kind(value)


@functools.cache
def _adapter(annotation: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(annotation)


def entries_of(data: Any) -> Iterable[tuple[Any, Any]]:
    """The values of a JSON object or list, each with its key or index."""
    held: list[Any] | dict[str, Any] = data
    return held.items() if isinstance(held, dict) else enumerate(held)


def _reader_of_each(kind: Any, container: type[list[Any]] | type[dict[str, Any]]) -> Read:
    """The reader of a list or of an object of values of one type."""
    arguments = typing.get_args(kind)
    read_each = _reader(arguments[-1]) if arguments else None

    def read(data: Any, rest: Rest) -> Any:
        entries: Any = data
        if not isinstance(data, container):
            return _adapter(kind).validate_python(data)
        if read_each is None or not entries:
            return entries
        made: dict[str | int, Any] = {}
        for key, each in entries_of(entries):
            try:
                made[key] = read_each(each, rest)
            except (ValueError, TypeError) as error:
                rest.unfit(entries, key, error)
        return made if container is dict else [*made.values()]

    return read


def _read_bytes(value: Any, rest: Rest) -> bytes:
    """Base64 of either alphabet, padded or not."""
    if not isinstance(value, str):
        raise ValueError("bytes must come as base64 text")
    text = value.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
