"""Checking JSON data against a JSON schema or Gemini's dialect of it (spec §10.7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and v.is_integer()),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, Mapping),
    "null": lambda v: v is None,
}


def check_against_schema(data: Any, schema: Mapping[str, Any]) -> list[str]:
    """What is wrong with `data`, one line each; empty if it fits.

    Type names are read in any case. Objects may not have properties that the schema does not name, unless it
    says `additionalProperties`.
    """
    problems: list[str] = []
    _check(data, schema, "output", schema.get("$defs") or {}, problems)
    return problems


def _check(data: Any, schema: Mapping[str, Any], where: str, defs: Mapping[str, Any], problems: list[str]) -> None:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = defs.get(reference.rsplit("/", 1)[-1], {})
    choices = schema.get("anyOf") or schema.get("any_of") or schema.get("oneOf")
    if choices:
        if not any(_fits(data, choice, defs) for choice in choices):
            problems.append(f"- {where}: fits none of the {len(choices)} allowed forms")
        return
    if data is None and schema.get("nullable"):
        return
    if not _check_type(data, schema, where, problems):
        return
    if "enum" in schema and data not in schema["enum"]:
        problems.append(f"- {where}: must be one of {schema['enum']}, not {data!r}")
    if "const" in schema and data != schema["const"]:
        problems.append(f"- {where}: must be {schema['const']!r}")
    if isinstance(data, str):
        _check_string(data, schema, where, problems)
    elif isinstance(data, int | float) and not isinstance(data, bool):
        _check_number(data, schema, where, problems)
    elif isinstance(data, list):
        _check_array(cast(list[Any], data), schema, where, defs, problems)
    elif isinstance(data, Mapping):
        _check_object(cast(Mapping[str, Any], data), schema, where, defs, problems)


def _fits(data: Any, schema: Mapping[str, Any], defs: Mapping[str, Any]) -> bool:
    problems: list[str] = []
    _check(data, schema, "", defs, problems)
    return not problems


def _check_type(data: Any, schema: Mapping[str, Any], where: str, problems: list[str]) -> bool:
    wanted = schema.get("type")
    if wanted is None:
        return True
    names = [str(t).lower() for t in (cast(Sequence[Any], wanted) if isinstance(wanted, list) else [wanted])]
    unknown = [name for name in names if name not in _TYPES]
    if unknown:
        problems.append(f"- {where}: the schema names the unknown type `{unknown[0]}`")
        return False
    if any(_TYPES[name](data) for name in names):
        return True
    problems.append(f"- {where}: must be {' or '.join(names)}, not {type(data).__name__}")
    return False


def _check_string(data: str, schema: Mapping[str, Any], where: str, problems: list[str]) -> None:
    if len(data) < int(schema.get("minLength") or 0):
        problems.append(f"- {where}: must have at least {schema['minLength']} characters")
    if schema.get("maxLength") is not None and len(data) > int(schema["maxLength"]):
        problems.append(f"- {where}: must have at most {schema['maxLength']} characters")
    if schema.get("pattern") and not re.search(schema["pattern"], data):
        problems.append(f"- {where}: must match the pattern {schema['pattern']}")


def _check_number(data: float, schema: Mapping[str, Any], where: str, problems: list[str]) -> None:
    if schema.get("minimum") is not None and data < schema["minimum"]:
        problems.append(f"- {where}: must be at least {schema['minimum']}")
    if schema.get("maximum") is not None and data > schema["maximum"]:
        problems.append(f"- {where}: must be at most {schema['maximum']}")


def _check_array(
    data: list[Any], schema: Mapping[str, Any], where: str, defs: Mapping[str, Any], problems: list[str]
) -> None:
    if len(data) < int(schema.get("minItems") or 0):
        problems.append(f"- {where}: must have at least {schema['minItems']} items")
    if schema.get("maxItems") is not None and len(data) > int(schema["maxItems"]):
        problems.append(f"- {where}: must have at most {schema['maxItems']} items")
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(data):
            _check(item, cast(Mapping[str, Any], items), f"{where}[{index}]", defs, problems)


def _check_object(
    data: Mapping[str, Any], schema: Mapping[str, Any], where: str, defs: Mapping[str, Any], problems: list[str]
) -> None:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    problems.extend(f"- {where}.{name}: is required" for name in schema.get("required") or () if name not in data)
    extra = schema.get("additionalProperties", not properties)
    for name, value in data.items():
        if name in properties:
            _check(value, properties[name], f"{where}.{name}", defs, problems)
        elif isinstance(extra, Mapping):
            _check(value, cast(Mapping[str, Any], extra), f"{where}.{name}", defs, problems)
        elif not extra:
            problems.append(f"- {where}.{name}: is not part of the schema")
