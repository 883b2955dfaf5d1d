"""Several schemas that all hold, as one (protocols spec §3: `allOf` is merged)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

Schema = dict[str, Any]

_FIRST = frozenset({"title", "format", "examples", "default", "contentMediaType", "contentEncoding"})
_LARGER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
_SMALLER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})
_EITHER = frozenset({"deprecated", "readOnly", "uniqueItems"})
_ONE = frozenset({"items", "additionalProperties", "unevaluatedProperties", "propertyNames", "contains"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})


def merged(schemas: Sequence[Schema], *, described: Schema) -> Schema:
    """One schema that says what all `schemas` say; what cannot be put into one stays in `allOf`.

    The description begins with that of `described`, which is one of them.
    """
    result: Schema = {}
    rest: list[Schema] = []
    for schema in schemas:
        left: Schema = {}
        for key, value in schema.items():
            if key == "allOf":
                rest.extend(value)
            elif key not in result or result[key] == value:
                result[key] = value
            elif not _combine(result, key, value):
                left[key] = value
        if left:
            rest.append(left)
    description = joined(*(each.get("description") for each in (described, *schemas)))
    if description:
        result["description"] = description
    if rest:
        result["allOf"] = rest
    return result


def joined(*texts: str | None) -> str:
    """The texts one after the other, none of them twice."""
    told = ""
    for text in texts:
        if text and text not in told:
            told = f"{told}\n\n{text}" if told else text
    return told


def _combine(result: Schema, key: str, value: Any) -> bool:
    """Put another `value` of `key` into `result`; whether that could be done."""
    known = result[key]
    if key == "description" or key in _FIRST:
        return True  # descriptions are joined at the end
    if key in _EITHER:
        result[key] = known or value
    elif key in _LARGER or key in _SMALLER:
        choose: Callable[[Any, Any], Any] = max if key in _LARGER else min
        result[key] = choose(known, value)
    elif key == "required":
        result[key] = list(dict.fromkeys([*known, *value]))
    elif key in _NAMED:
        both = {name: _both(known[name], each) if name in known else each for name, each in value.items()}
        result[key] = known | both
    elif key in _ONE:
        result[key] = _both(known, value)
    elif key == "type":
        return _narrow(result, _kinds(known), _kinds(value))
    elif key == "enum":
        common = [each for each in known if each in value]
        if common:
            result[key] = common
        return bool(common)
    else:
        return False
    return True


def _both(one: Any, other: Any) -> Any:
    if isinstance(one, bool) or isinstance(other, bool):
        plain = one if isinstance(one, bool) else other
        return False if plain is False else (other if one is plain else one)
    return merged([one, other], described=one)


def _kinds(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else cast(list[str], value)


def _narrow(result: Schema, known: list[str], other: list[str]) -> bool:
    """Leave the types that both have; a whole number is a number."""
    common = [kind for kind in known if kind in other or (kind == "integer" and "number" in other)]
    common += [kind for kind in other if kind == "integer" and "number" in known and kind not in common]
    if common:
        result["type"] = common[0] if len(common) == 1 else common
    return bool(common)
