"""Data that a page gives or is shown: mappings, JSON texts, and the part of the state that is its business."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

CLOSED_PREFIXES = ("temp:", "app:", "user:")
"""Keys of the state that begin so are neither told nor taken."""


def shown_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a page may see of a session's state."""
    return {key: value for key, value in state.items() if not key.startswith(CLOSED_PREFIXES)}


def as_mapping(value: object) -> dict[str, Any] | None:
    """A value that is a mapping; None for any other."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_json(value: Any) -> str:
    """A value as JSON text; what JSON cannot hold by its text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def as_data(text: str) -> Any:
    """The data of a JSON text; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
