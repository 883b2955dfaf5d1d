"""The schema that an answer is to follow, in Gemini's dialect: out of a class, a type, an enum or a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, EnumMeta
from typing import Any, cast

from google.genai import types
from pydantic import PydanticUserError, TypeAdapter

from flowloom.interop.generate_content_codec import Codec, model_codec
from flowloom.interop.generate_content_misfit import Misfit

JsonSchema = dict[str, Any]


class ResponseSchemaCodec(Codec):
    """A `types.Schema` is written as it is; all else in the terms of one, which is what comes back."""

    def read(self, value: Any) -> Any:
        return model_codec(types.Schema).read(value)

    def write(self, value: Any, *, url_safe: bool) -> Any:
        schema = model_codec(types.Schema)
        if not isinstance(value, types.Schema):
            given = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else described(value)
            value = schema.read(in_dialect(given))
        return schema.write(value, url_safe=url_safe)


def described(kind: Any) -> JsonSchema:
    """The JSON schema of a class or type. Raises `Misfit` for what has none."""
    if isinstance(kind, EnumMeta):
        members = cast("list[Enum]", list(kind))
        return {"title": kind.__name__, "type": "string", "enum": [str(member.value) for member in members]}
    try:
        return TypeAdapter[Any](kind).json_schema()
    except PydanticUserError as error:
        raise Misfit(f"it cannot be described as a JSON schema ({error.message.partition(chr(10))[0]})") from None


def in_dialect(
    schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None, above: tuple[str, ...] = ()
) -> JsonSchema:
    """A JSON schema as Gemini takes it: definitions in their places, null as `nullable`, properties in order.

    A definition inside itself (one of those `above`) becomes a schema that allows anything, as google-genai has it.
    """
    schema = _respelled(schema)
    held: Mapping[str, Any] = schema.pop("$defs", None) or definitions or {}
    reference = schema.pop("$ref", None)
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in above:
            return schema
        if name not in held:
            raise Misfit(f"it refers to `{reference}`, which is not defined")
        return in_dialect({**held[name], **schema}, held, (*above, name))

    def inner(item: Any) -> Any:
        return in_dialect(cast("Mapping[str, Any]", item), held, above) if isinstance(item, Mapping) else item

    _mark_nullable(schema)
    if "$ref" in schema:  # what is left of a choice between it and null
        return in_dialect(schema, held, above)
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    for key, item in schema.items():
        if key in ("items", "additionalProperties"):
            schema[key] = inner(item)
        elif key in ("anyOf", "prefixItems") and isinstance(item, list):
            schema[key] = [inner(each) for each in cast("list[Any]", item)]
        elif key == "properties" and isinstance(item, Mapping):
            schema[key] = {name: inner(each) for name, each in cast("Mapping[str, Any]", item).items()}
    if len(schema.get("properties") or ()) > 1:
        schema.setdefault("propertyOrdering", list(schema["properties"]))
    return schema


_SPELLINGS = {
    "any_of": "anyOf",
    "oneOf": "anyOf",
    "additional_properties": "additionalProperties",
    "prefix_items": "prefixItems",
    "property_ordering": "propertyOrdering",
}


def _respelled(schema: Mapping[str, Any]) -> JsonSchema:
    return {_SPELLINGS.get(key, key): value for key, value in schema.items()}


def _mark_nullable(schema: JsonSchema) -> None:
    """Gemini has no type `null`: what allows it is `nullable`."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        schema["anyOf"] = [{"type": kind} for kind in cast(list[Any], schema.pop("type"))]
    elif kinds == "null":
        schema["nullable"] = True
        del schema["type"]
    choices: Any = schema.get("anyOf")
    if not isinstance(choices, list) or {"type": "null"} not in choices:
        return
    schema["nullable"] = True
    left = [choice for choice in cast(list[Any], choices) if choice != {"type": "null"}]
    if len(left) == 1:
        del schema["anyOf"]
        schema.update({key: value for key, value in left[0].items() if key not in schema})
    else:
        schema["anyOf"] = left
