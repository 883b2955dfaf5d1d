"""Pydantic types from JSON data without pydantic's validation, by readers that are made once for each type.

A reader checks the type of every value that it takes, so that what it makes is as good as what validation makes. It
raises `MisfitError` for a value in it that does not fit.
"""

from __future__ import annotations

import base64
import functools
import types as python_types
import typing
import warnings
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel, TypeAdapter, ValidationError

from flowloom.events.wire import WireModel, folded_name, make, set_extra, set_given

Read = Callable[[Any, bool], Any]
"""Makes a value from JSON data. The second argument says whether fields that it does not know may be left out."""


class MisfitError(ValueError):
    """A value is not of the type that its place asks for.

    Attribute: `location` (the keys that lead to it, of the innermost reader that could say one).
    """

    def __init__(self, problem: str, location: list[str | int]) -> None:
        super().__init__(problem)
        self.location = location


def _misfit(error: Exception, key: str | int) -> MisfitError:
    """What a value below `key` raised, with the way to it."""
    if isinstance(error, MisfitError):
        return MisfitError(str(error), [key, *error.location])
    return MisfitError(error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error), [key])


@functools.cache
def model_reader(model: type[BaseModel]) -> Read:
    """The reader of a type, made once."""
    # Only the types of events and responses are ever read, so the cache cannot grow beyond them.
    return reader_of(model, {})


def reader_of(model: type[BaseModel], special: Mapping[str, Read]) -> Read:
    """The reader of a type of google-genai, or of one of flowloom's own, which keep what they do not know.

    Null is as if not given. `special` has the readers of fields that the type validates in a way of its own; they are
    given nulls too. The names of flowloom's own types are taken in camelCase and snake_case, and in any other case
    where neither fits (spec §0.6).
    """
    fields = _fields_of(model, special)
    own = issubclass(model, WireModel)
    folded = {folded_name(name): entry for name, entry in fields.items()} if own else {}

    def read(data: Any, lossy: bool) -> Any:
        if not isinstance(data, dict):
            return model.model_validate(data)
        values: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, value in cast(dict[str, Any], data).items():
            known = fields.get(key) or folded.get(folded_name(key))
            if known is None:
                if not (own or lossy):
                    raise ValueError(f"`{key}` is not known")
                unknown[key] = value
            elif value is not None or known[0] in special:
                name, read_value = known
                try:
                    values[name] = value if read_value is None else read_value(value, lossy)
                except (ValueError, TypeError) as error:
                    raise _misfit(error, key) from error
        new = make(model, values)
        if own:
            set_extra(new, unknown)
        else:
            set_given(new, set(values))
        return new

    return read


def _fields_of(model: type[BaseModel], special: Mapping[str, Read]) -> dict[str, tuple[str, Read | None]]:
    fields: dict[str, tuple[str, Read | None]] = {}
    for name, field in model.model_fields.items():
        entry = (name, special[name] if name in special else _reader(field.annotation))
        fields[name] = fields[field.alias or name] = entry
    if model is types.CitationMetadata:
        fields["citationSources"] = fields["citations"]  # the Gemini API's name for it
    return fields


def _reader(annotation: Any) -> Read | None:
    """How to read a JSON value of that type; None for JSON that is taken as it is."""
    union = typing.get_origin(annotation) in (typing.Union, python_types.UnionType)
    options = [option for option in typing.get_args(annotation) if option is not type(None)] if union else [annotation]
    kind: Any = options[0] if len(options) == 1 else None
    origin = typing.get_origin(kind)
    if origin is list:
        return _list_reader(kind)
    if kind is dict or origin is dict:
        return _dict_reader(kind)
    if kind is Any:
        return None
    if isinstance(kind, type):
        if issubclass(kind, BaseModel):
            # made when needed: types refer to each other in circles
            return lambda value, lossy: model_reader(kind)(value, lossy)
        if issubclass(kind, Enum):
            members: dict[Any, Any] = dict(kind._value2member_map_)
            return lambda value, lossy: _member(kind, members, value)
        if kind is bytes:
            return _read_bytes
        if kind in (str, int, float, bool):
            # 64-bit numbers may come as text, whole floats as integers.
            return lambda value, lossy: value if type(value) is kind else _adapter(kind).validate_python(value)
    return lambda value, lossy: _adapter(annotation).validate_python(value)


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
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _list_reader(kind: Any) -> Read:
    read_item = _reader(typing.get_args(kind)[0])

    def read(value: Any, lossy: bool) -> Any:
        if not isinstance(value, list):
            return _adapter(kind).validate_python(value)
        items = cast(list[Any], value)
        if read_item is None:
            return items
        made: list[Any] = []
        try:
            for item in items:
                made.append(read_item(item, lossy))  # noqa: PERF401 - how many there are says which one is wrong
        except (ValueError, TypeError) as error:
            raise _misfit(error, len(made)) from error
        return made

    return read


def _dict_reader(kind: Any) -> Read:
    arguments = typing.get_args(kind)
    read_value = _reader(arguments[1]) if arguments else None

    def read(value: Any, lossy: bool) -> Any:
        if not isinstance(value, dict):
            raise TypeError("it is not a JSON object")
        entries = cast(dict[str, Any], value)
        if read_value is None or not entries:
            return entries
        made: dict[str, Any] = {}
        for key, entry in entries.items():
            try:
                made[key] = read_value(entry, lossy)
            except (ValueError, TypeError) as error:
                raise _misfit(error, key) from error
        return made

    return read


def _read_bytes(value: Any, lossy: bool) -> bytes:
    """Base64 of either alphabet, padded or not."""
    if not isinstance(value, str):
        raise ValueError("bytes must come as base64 text")
    text = value.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
