"""JSON schemas, and Gemini's dialect of them, as validators (spec §10.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import SchemaValidator
from pydantic_core import core_schema as core

from flowloom.errors import ConfigurationError

_ANYTHING: Mapping[str, Any] = {}


def validator_of(schema: Mapping[str, Any]) -> SchemaValidator:
    """A strict validator of JSON data: nothing is converted, and a property that the schema does not name is wrong.

    Type names are read in any case. Raises `ConfigurationError` for one that is unknown.
    """
    definitions: list[Any] = [{**_core(held), "ref": name} for name, held in schema.get("$defs", {}).items()]
    return SchemaValidator(core.definitions_schema(_core(schema), definitions), core.CoreConfig(strict=True))


def _core(schema: Mapping[str, Any]) -> core.CoreSchema:
    if "$ref" in schema:
        return core.definition_reference_schema(schema["$ref"].rpartition("/")[2])
    named = schema.get("type") or ("object" if "properties" in schema else "any")
    kinds = {kind.lower() for kind in ([named] if isinstance(named, str) else named)}
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        found = core.union_schema([_core(choice) for choice in choices])
    elif "enum" in schema or "const" in schema:
        found = core.literal_schema(schema["enum"] if "enum" in schema else [schema["const"]])
    else:
        found = core.union_schema([_of_kind(kind, schema) for kind in sorted(kinds)])
    return core.nullable_schema(found) if schema.get("nullable") or "null" in kinds else found


# `strict` stands on each kind by itself: inside of a union the config's is not heeded.


def _of_kind(kind: str, schema: Mapping[str, Any]) -> core.CoreSchema:
    if kind == "string":
        low, high, pattern = map(schema.get, ("minLength", "maxLength", "pattern"))
        return core.str_schema(min_length=low, max_length=high, pattern=pattern, regex_engine="python-re", strict=True)
    if kind in ("integer", "number"):  # 2.0 is an integer too
        step = 1 if kind == "integer" else None
        return core.float_schema(multiple_of=step, ge=schema.get("minimum"), le=schema.get("maximum"), strict=True)
    if kind == "array":
        low, high = schema.get("minItems"), schema.get("maxItems")
        return core.list_schema(_core(schema.get("items", _ANYTHING)), min_length=low, max_length=high)
    if kind == "object":
        return _object(schema)
    if kind == "boolean":
        return core.bool_schema(strict=True)
    if kind in ("null", "any"):
        return core.none_schema() if kind == "null" else core.any_schema()
    raise ConfigurationError(f"A JSON schema names the unknown type `{kind}`.")


def _object(schema: Mapping[str, Any]) -> core.CoreSchema:
    required: list[str] = schema.get("required") or []
    properties: dict[str, Any] = {**dict.fromkeys(required, _ANYTHING), **(schema.get("properties") or {})}
    extra = schema.get("additionalProperties", not properties)
    return core.typed_dict_schema(
        {name: core.typed_dict_field(_core(held), required=name in required) for name, held in properties.items()},
        extra_behavior="forbid" if extra is False else "allow",
        extras_schema=None if isinstance(extra, bool) else _core(extra),
    )
