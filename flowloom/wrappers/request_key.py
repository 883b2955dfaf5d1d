"""A name for a request: the same for two requests only if a model is told the same in both."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable
from enum import Enum
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel

from flowloom.events.wire import fields_of
from flowloom.inspection.canonical import schema_of
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest

VERSION = 1
"""Of the way in which keys are made. Keys of different versions are never equal."""

_NOT_TOLD = (
    "model",
    "tools_dict",
    "dynamic_instructions",
    "cache_config",
    "cache_metadata",
    "cacheable_contents_token_count",
)
_SCHEMAS = ("response_schema", "response_json_schema")


def request_key(request: LlmRequest, *told_by: str | None) -> str | None:
    """The SHA-256 of all that a model is given, in hexadecimal. `told_by` goes into it, the request's `model` does not.

    It is made of what `RequestView` shows, with nothing shortened or hidden: texts to the letter, all bytes, values of
    HTTP headers. Of the ids of calls only which are the same counts. None for a request that holds what cannot be told
    from another of its kind, such as an object with a behaviour.
    """
    told = {name: value for name, value in _set_fields(request).items() if name not in _NOT_TOLD}
    if isinstance(request.contents, SharedContents):
        told["contents"] = request.contents.plain()
    try:
        told["config"] = config = _set_fields(request.config)
        for name in _SCHEMAS:
            if name in config and not isinstance(config[name], dict | types.Schema):
                config[name] = _schema(config[name])
        text = json.dumps([VERSION, *told_by, told], separators=(",", ":"), default=_Plain())
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


class _Plain:
    """What JSON has no form for, as something that it has one for. Ids of calls are counted as they come up."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, BaseModel):
            fields = _set_fields(value)
            if isinstance(value, types.FunctionCall | types.FunctionResponse) and value.id:
                fields["id"] = self._numbers.setdefault(value.id, len(self._numbers))
            return fields
        if isinstance(value, bytes):
            return {"sha256": hashlib.sha256(value).hexdigest()}
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, set | frozenset):
            return sorted(cast("Iterable[Any]", value), key=repr)
        raise TypeError(f"{value!r} is no data")


def _set_fields(model: BaseModel) -> dict[str, Any]:
    fields = {name: value for name, value in fields_of(model).items() if value is not None}
    if model.__pydantic_extra__:
        fields |= model.__pydantic_extra__
    return fields


def _schema(value: Any) -> Any:
    schema = schema_of(value)
    if isinstance(schema, str):
        raise TypeError(f"{value!r} has no schema")
    return schema
