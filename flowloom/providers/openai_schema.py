"""Response schemas as OpenAI takes them."""

from __future__ import annotations

import re
from typing import Any, cast

from flowloom.providers.sdk_answers import Json, object_of
from flowloom.providers.sdk_request import unsupported

_SAYS_WHAT = ("type", "$ref", "anyOf", "enum", "const")
_REFUSED = frozenset(
    "oneOf allOf not if then else patternProperties prefixItems contains default dependentRequired dependentSchemas "
    "propertyNames unevaluatedItems unevaluatedProperties".split()
)


def named_schema(schema: Json, model: str, *, openai: bool) -> Json:
    """A schema with a name. It is enforced (`strict`) where it has the form that OpenAI then asks for.

    That is: objects require all that they have, and nothing else is allowed in them, or nothing is said of that.
    Raises `UnsupportedFeatureError` for a schema that is no object's, if the server is OpenAI's.
    """
    if openai and schema.get("type") != "object" and "$ref" not in schema:
        raise unsupported(model, "config.response_schema", "is no object's, and this API gives nothing but objects")
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", str(schema.get("title") or "answer"))[:64]
    closed = _closed(schema) if schema.get("type") == "object" else None
    return {"name": name, "schema": schema if closed is None else closed, "strict": closed is not None}


def _closed(schema: Any) -> Json | None:
    """The schema with its objects closed; None if it cannot be enforced."""
    given = object_of(schema)
    if not any(name in given for name in _SAYS_WHAT) or not _REFUSED.isdisjoint(given):
        return None
    if "$ref" in given:
        return given if len(given) == 1 else None
    closed = dict(given)
    if given.get("type") == "object" or "properties" in given:
        properties = object_of(given.get("properties"))
        more = given.get("additionalProperties", None if properties else True)
        if more not in (None, False) or set(given.get("required") or ()) != set(properties):
            return None
        closed["additionalProperties"] = False
    if given.get("type") == "array" and "items" not in given:
        return None
    for name in ("properties", "$defs"):
        if name in given:
            inner = {key: _closed(value) for key, value in object_of(given[name]).items()}
            if None in inner.values():
                return None
            closed[name] = inner
    if "items" in given and (items := _closed(given["items"])) is not None:
        closed["items"] = items
    elif "items" in given:
        return None
    if "anyOf" in given:
        choices = [_closed(each) for each in cast(list[Any], given["anyOf"])]
        if None in choices:
            return None
        closed["anyOf"] = choices
    return closed
