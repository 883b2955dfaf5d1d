"""What of a run's content may be recorded, and how it is written (decision 26)."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any, cast

from pydantic_core import to_jsonable_python

from flowloom.events.json_data import without_halves

ELIDED = "<elided>"
"""Stands for prompts, answers, arguments and results while their capture is off."""

NOT_SPECIFIED = "<not specified>"
"""Stands for a value that there is none of, or that cannot be written."""

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that switches the capture of content on, by `1` or `true`."""

_LONGEST = 1 << 63


@cache
def content_captured() -> bool:
    """Whether prompts, answers, arguments and results are recorded. The environment is read once per process."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in ("1", "true")


def reread_settings() -> None:
    """Read the environment again when the next value is recorded."""
    content_captured.cache_clear()


def as_data(value: Any) -> Any:
    """`value` as JSON-like data, if content is captured. What JSON has no form for is written as text."""
    if not content_captured():
        return ELIDED
    try:
        return exportable(
            to_jsonable_python(value, by_alias=True, exclude_none=True, bytes_mode="base64", fallback=str)
        )
    except Exception:  # whatever an object does when it is looked at: no reason to fail a run
        return NOT_SPECIFIED


def exportable(data: Any) -> Any:
    """JSON-like data as an exporter can write it, which loses all that it has at hand over one value that it cannot:
    integers of more than 64 bits are texts, and texts have U+FFFD for halves of surrogate pairs."""
    if isinstance(data, str):
        return data if data.isascii() else without_halves(data)
    if isinstance(data, int):
        return data if -_LONGEST <= data < _LONGEST else str(data)
    if isinstance(data, dict):
        return {exportable(key): exportable(each) for key, each in cast("dict[Any, Any]", data).items()}
    if isinstance(data, list):
        return [exportable(each) for each in cast("list[Any]", data)]
    return data


def as_json(value: Any) -> str:
    """`value` as JSON text, if content is captured."""
    data = as_data(value)
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
