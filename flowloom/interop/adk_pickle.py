"""The pickled actions of events in google-adk's older layout, read without running anything that is in them."""

from __future__ import annotations

import collections
import datetime
import decimal
import io
import pickle
import uuid
from typing import Any, cast

import pydantic_core
from pydantic.alias_generators import to_camel

from flowloom.errors import StorageError

_PLAIN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("datetime", "date"): datetime.date,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "time"): datetime.time,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    ("decimal", "Decimal"): decimal.Decimal,
    ("uuid", "UUID"): uuid.UUID,
    **{
        ("builtins", kind.__name__): kind
        for kind in (dict, list, set, frozenset, tuple, str, bytes, bytearray, int, float, bool, complex)
    },
}
_RECORDS = ("google.adk.", "google.genai.", "fastapi.openapi.models")


class _Record:
    """Stands for an object of a type of google-adk: what it was made of, and no behaviour."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def plain(self) -> Any:
        """Its fields, in the names of the wire; an enum's value."""
        if self.state is None:
            return _plain(self.arguments[0]) if len(self.arguments) == 1 else None
        state = cast("dict[str, Any]", self.state)
        if type(state) is not dict:
            raise TypeError("an object's fields are a dict")
        fields = dict(cast("dict[str, Any]", state.get("__dict__", state)))
        fields.update(cast("dict[str, Any]", state.get("__pydantic_extra__") or {}))
        return {to_camel(name.rstrip("_")): _plain(value) for name, value in fields.items() if value is not None}


class _Unpickler(pickle.Unpickler):
    """Knows data types of the standard library, and takes google-adk's types for records."""

    def find_class(self, module: str, name: str, /) -> Any:
        plain = _PLAIN.get((module, name))
        if plain is not None:
            return plain
        if module.startswith(_RECORDS) and "." not in name:
            return _Record
        raise StorageError(
            f"The pickled actions of an event hold a `{module}.{name}`, which is not loaded, because unpickling it may "
            f"run code. If you trust the database, bring it to google-adk's newer layout first: `adk migrate session`."
        )


def unpickled_actions(data: bytes) -> dict[str, Any]:
    """The actions as JSON data. Raises `StorageError` for what is none, or holds more than data."""
    try:
        found = _Unpickler(io.BytesIO(data)).load()
        actions = found.plain() if isinstance(found, _Record) else _plain(found)
        if not isinstance(actions, dict):
            raise TypeError(f"they are a {type(found).__name__}")
        return cast("dict[str, Any]", pydantic_core.to_jsonable_python(actions, bytes_mode="base64", fallback=repr))
    except StorageError:
        raise
    except Exception as error:  # a pickle that is damaged may raise anything
        raise StorageError(f"The pickled actions of an event cannot be read: {error!r}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, _Record):
        return value.plain()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value
