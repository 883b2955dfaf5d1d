"""The JSON of Gemini's API and the messages of `google-ai-generativelanguage`: what of the one fits into the other.

protobuf's own `json_format` does the work. What it would refuse without a place, round in silence, or give back in
another form is seen to here.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic.alias_generators import to_snake

from flowloom.extras import absent, missing_extra
from flowloom.interop.generate_content_misfit import Misfit, kind_of

try:
    from google.ai import generativelanguage
    from google.protobuf import json_format
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp
except ImportError as error:
    if TYPE_CHECKING:
        raise
    generativelanguage = json_format = FieldDescriptor = Duration = Message = Timestamp = absent(
        missing_extra("Messages of protobuf need `google-ai-generativelanguage`", "protobuf", error)
    )

__all__ = ["Message", "data_of", "fill", "generativelanguage"]

_STRUCT = "google.protobuf.Struct"
_VALUE = "google.protobuf.Value"
_LIST = "google.protobuf.ListValue"
_FREE = (_STRUCT, _VALUE, _LIST)
_DURATION = "google.protobuf.Duration"
_TIMESTAMP = "google.protobuf.Timestamp"
_TIMES: dict[str, Any] = {_DURATION: Duration, _TIMESTAMP: Timestamp}
# The Gemini API's name for it; google-genai's types and Vertex AI have the other.
_RENAMED = {"citations": "citationSources"}


def fill(message: Message, data: Mapping[str, Any]) -> None:
    """Fill a message from JSON data. Raises `Misfit` for what it has no place for."""
    fitted = _fitted(data, cast(Any, message).DESCRIPTOR)
    try:
        json_format.ParseDict(fitted, message)
    except json_format.ParseError as error:
        raise Misfit(f"the message does not take it ({error})") from None


def data_of(message: Message) -> dict[str, Any]:
    """A message as JSON data. Enum numbers without a name stay numbers, and whole numbers are integers again.

    Raises `Misfit` for a message that has no JSON form.
    """
    try:
        data = json_format.MessageToDict(message)
    except (json_format.Error, ValueError) as error:
        raise Misfit(f"the message has no JSON form ({error})") from None
    return _read_back(data, cast(Any, message).DESCRIPTOR)


# -- to a message ------------------------------------------------------------------------------


def _fitted(data: Any, kind: Descriptor) -> Any:
    """The data as `json_format` reads it into a message of this kind."""
    if kind.full_name in _FREE:
        _check_free(data)
        return data
    if kind.full_name in _TIMES:
        try:
            _TIMES[kind.full_name]().FromJsonString(data)
        except (ValueError, TypeError) as error:
            raise Misfit(str(error).rstrip(".")) from None
        return data
    if not isinstance(data, Mapping):
        raise Misfit(f"an object is expected, not {kind_of(data)}")
    known = _fields_of(kind)
    taken: dict[str, str] = {}
    fitted: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", data).items():
        field = known.get(key) or known.get(_RENAMED.get(key, ""))
        if field is None:
            raise Misfit(f"the message `{kind.name}` of this release has no such field", to_snake(key))
        name = field.name.rstrip("_")
        group = field.containing_oneof
        if group is not None and taken.setdefault(group.name, name) != name:
            raise Misfit(f"the message `{kind.name}` holds either this or `{taken[group.name]}`", name)
        try:
            fitted[field.json_name] = _fitted_field(value, field)
        except Misfit as misfit:
            raise misfit.within(name) from None
    return fitted


def _fields_of(kind: Descriptor) -> dict[str, FieldDescriptor]:
    return {field.json_name: field for field in kind.fields}


def _fitted_field(value: Any, field: FieldDescriptor) -> Any:
    entry = _entry_of(field)
    if entry is not None and isinstance(value, Mapping):
        fitted: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            try:
                fitted[key] = _fitted_one(item, entry)
            except Misfit as misfit:
                raise misfit.within(key) from None
        return fitted
    if field.is_repeated and isinstance(value, list):
        items: list[Any] = []
        for index, item in enumerate(cast("list[Any]", value)):
            try:
                items.append(_fitted_one(item, field))
            except Misfit as misfit:
                raise misfit.within(index) from None
        return items
    return _fitted_one(value, field)


@functools.cache
def _int_ranges() -> dict[int, tuple[int, int]]:
    """The lowest integer that a field of a type holds, and the first that it does not."""
    return {
        FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31),
        FieldDescriptor.CPPTYPE_UINT32: (0, 2**32),
        FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63),
        FieldDescriptor.CPPTYPE_UINT64: (0, 2**64),
    }


def _entry_of(field: FieldDescriptor) -> FieldDescriptor | None:
    """The values of a map."""
    kind = field.message_type
    return kind.fields_by_name["value"] if kind is not None and kind.GetOptions().map_entry else None


def _fitted_one(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return _fitted(value, field.message_type)
    if field.enum_type is not None:
        if isinstance(value, str) and value not in field.enum_type.values_by_name:
            raise Misfit(f"the enum `{field.enum_type.name}` of this release has no `{value}`")
        low, high = _int_ranges()[FieldDescriptor.CPPTYPE_INT32]
        if isinstance(value, int) and not low <= value < high:
            raise Misfit(f"{value} is out of the range of an enum")
    elif field.cpp_type in _int_ranges() and isinstance(value, int | float):
        low, high = _int_ranges()[field.cpp_type]
        if not low <= value < high or value != int(value):
            raise Misfit(f"{value} is no whole number in the range of the field")
    elif field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT and isinstance(value, int | float):
        try:
            struct.pack("<f", value)
        except OverflowError:
            raise Misfit(f"{value} is out of the range of the field") from None
    return value


def _check_free(value: Any) -> None:
    """A number in free data is a double: an integer that is none cannot be carried."""
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            exact = int(float(value)) == value
        except OverflowError:
            exact = False
        if not exact:
            raise Misfit(f"{value} is no number of 64-bit floating point, which is what the message holds")
    children: Any = ()
    if isinstance(value, Mapping):
        children = cast("Mapping[str, Any]", value).items()
    elif isinstance(value, list):
        children = enumerate(cast("list[Any]", value))
    for step, item in children:
        try:
            _check_free(item)
        except Misfit as misfit:
            raise misfit.within(step) from None


# -- from a message ----------------------------------------------------------------------------


def _read_back(data: Any, kind: Descriptor) -> Any:
    if kind.full_name in _FREE:
        return _with_integers(data)
    if kind.full_name == _DURATION:
        return _shortest(data)
    if kind.full_name == _TIMESTAMP:
        return data
    known = _fields_of(kind)
    for key, value in data.items():
        field = known[key]
        entry = _entry_of(field)
        inner = field.message_type if entry is None else entry.message_type
        if inner is None:
            continue
        if entry is not None:
            data[key] = {name: _read_back(item, inner) for name, item in value.items()}
        elif field.is_repeated:
            data[key] = [_read_back(item, inner) for item in value]
        else:
            data[key] = _read_back(value, inner)
    return data


def _with_integers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and (value or math.copysign(1, value) > 0):
        return int(value)
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in cast("list[Any]", value)]
    return value


def _shortest(duration: str) -> str:
    """`1.500s` as `1.5s`."""
    number = duration.removesuffix("s")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + "s"
