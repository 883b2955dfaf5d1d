"""What of a run's content may be recorded, and how it is written (decision 26)."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from pydantic_core import to_jsonable_python

ELIDED = "<elided>"
"""Stands for prompts, answers, arguments and results while their capture is off."""

NOT_SPECIFIED = "<not specified>"
"""Stands for a value that there is none of, or that cannot be written."""

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that switches the capture of content on, by `1` or `true`."""


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
        return to_jsonable_python(value, by_alias=True, exclude_none=True, bytes_mode="base64", fallback=str)
    except Exception:  # whatever an object does when it is looked at: no reason to fail a run
        return NOT_SPECIFIED


def as_json(value: Any) -> str:
    """`value` as JSON text, if content is captured."""
    data = as_data(value)
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
