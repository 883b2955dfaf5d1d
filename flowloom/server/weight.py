"""About how many bytes contents take: what bounds the memory of a development server (server spec §7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from google.genai import types

_OBJECT = 200


def weight_of(contents: Iterable[types.Content]) -> int:
    """About how many bytes these contents take; too many rather than too few, where they are shared."""
    return sum(_OBJECT + sum(map(_part_weight, content.parts or ())) for content in contents)


def _part_weight(part: types.Part) -> int:
    size = _OBJECT + len(part.text or "")
    if part.inline_data is not None:
        size += len(part.inline_data.data or b"")
    if part.function_call is not None:
        size += data_weight(part.function_call.args)
    if part.function_response is not None:
        size += data_weight(part.function_response.response)
    return size


def data_weight(value: Any) -> int:
    """About how many bytes JSON-like data takes."""
    if isinstance(value, str | bytes):
        return 50 + len(value)
    if isinstance(value, dict):
        return 100 + sum(50 + len(str(key)) + data_weight(each) for key, each in cast(dict[Any, Any], value).items())
    if isinstance(value, list | tuple):
        return 60 + sum(map(data_weight, cast(list[Any], value)))
    return 30
