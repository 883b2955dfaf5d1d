"""What a JSON schema says, whoever wrote it: tools come from anywhere, and readers of their schemas cope with all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast


def keywords_of(schema: Any) -> dict[str, Any]:
    """The keywords of a schema; none for one that is a boolean. Those whose values are of another form than JSON Schema
    gives them are left out."""
    given = cast(dict[str, Any], schema) if isinstance(schema, dict) else {}
    return {name: value for name, value in given.items() if name not in _FORMS or _FORMS[name](value)}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in cast(dict[Any, Any], value))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in cast(list[Any], value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


_FORMS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("properties", "$defs"), _is_object),
    **dict.fromkeys(("enum", "anyOf", "oneOf", "allOf"), _is_list),
    "required": _is_names,
    **dict.fromkeys(("minimum", "exclusiveMinimum"), _is_number),
    **dict.fromkeys(("minItems", "minLength", "maxLength"), _is_count),
}
