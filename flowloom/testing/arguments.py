"""Arguments and values made up from a schema: the same ones each time, as small as the schema allows.

They are to be read, in a test and by a tool: defaults, examples and the names of properties are taken, and schemas may
lead back to themselves. What draws values at random, as hypothesis-jsonschema does, has none of that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from typing import Any, cast
from urllib.parse import unquote

from google.genai import types
from pydantic import JsonValue, PydanticUserError, TypeAdapter

from flowloom.errors import FlowloomError
from flowloom.testing.texts import text_for

Schema = Mapping[str, Any]

_MAX_DEPTH = 4
"""How many objects deep properties that are not required are given."""
_MAX_TRIES = 64


class SchemaValueError(FlowloomError, ValueError):
    """No value could be made up for a schema, for a `reason`.

    Attributes: `path` (where in the value, such as `book.passengers[0].passport`).
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"No value can be made up for `{path}`: {reason}. Give the tool's arguments with `arguments=`, or put an "
            f"`example` into the schema."
        )
        self.path = path


class _EndlessError(SchemaValueError):
    """The schema leads back to itself."""


def arguments_for(declaration: types.FunctionDeclaration, *, optional: bool = False) -> dict[str, JsonValue]:
    """Arguments that a function takes, by its `declaration`: the required ones, or with `optional` all.

    Raises `SchemaValueError`, with the place, for what no value can be made up for (see `value_for`).
    """
    schema: Any = declaration.parameters_json_schema
    if schema is None:
        schema = declaration.parameters
    name = declaration.name or "arguments"
    made = {} if schema is None else value_for(schema, optional=optional, path=name)
    if not isinstance(made, dict):
        raise SchemaValueError(name, "its parameters are no object")
    return made


def value_for(schema: Any, *, optional: bool = False, path: str = "value") -> JsonValue:
    """A value that fits `schema`: a JSON schema, a `types.Schema`, a pydantic model or a type that pydantic knows.

    Constants, enums, defaults and examples are taken as they stand; of alternatives the first that is not null and
    works; a text is the name of its property, a number the one nearest to 0. Objects have their required properties
    only, arrays as few items as may be; with `optional`, all properties and at least one item. Recursion ends where
    the schema lets it. `not`, `if`, `contains` and `dependent...` are not looked at.

    `path` is the name of the value in errors. Raises `SchemaValueError` if there is no such value, or none could be
    found: for a pattern that is not simple, say.
    """
    root = _as_json_schema(schema, path)
    try:
        return _Maker(root, optional).value(root, path, frozenset())
    except SchemaValueError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise SchemaValueError(
            path, f"a keyword of its schema is of a form that JSON Schema has not ({error})"
        ) from error


def _as_json_schema(schema: Any, path: str) -> Schema | bool:
    if isinstance(schema, types.Schema | types.JSONSchema):
        return schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(schema, Mapping | bool):
        return cast(Schema | bool, schema)
    try:
        return TypeAdapter[Any](schema).json_schema()
    except PydanticUserError as error:
        raise SchemaValueError(path, f"{schema!r} cannot be described as JSON schema") from error


class _Maker:
    """Makes values from the schemas in one document.

    `active` are the references around a schema: one that comes again inside itself would not end. `nth` asks for
    another value than the smaller numbers give, where the schema has several.
    """

    def __init__(self, root: Schema | bool, optional: bool) -> None:
        self._root = root
        self._optional = optional
        self._depth = 0

    def value(self, schema: Schema | bool, path: str, active: frozenset[str], nth: int = 0) -> JsonValue:
        flat, active = self._flat(schema, path, active)
        given = _given(flat, nth)
        if given:
            return given[0]
        if "enum" in flat:
            raise SchemaValueError(path, f"none of {json.dumps(flat['enum'])} is left after what else it must be")
        if "anyOf" in flat:
            rest = {key: held for key, held in flat.items() if key != "anyOf"}
            choices = sorted(flat["anyOf"], key=_is_null)
            makers = [lambda each=each: self.value({"allOf": [rest, each]}, path, active, nth) for each in choices]
        else:
            makers = [lambda kind=kind: self._of_kind(kind, flat, path, active, nth) for kind in _kinds(flat, path)]
        return _first(makers, path)

    def _of_kind(self, kind: str, flat: Schema, path: str, active: frozenset[str], nth: int) -> JsonValue:
        if kind == "object":
            return self._object(flat, path, active, nth)
        if kind == "array":
            return self._array(flat, path, active, nth)
        if kind == "string":
            if "contentSchema" in flat:
                return json.dumps(self.value(flat["contentSchema"], path, active, nth))
            return self._text(flat, path, nth)
        if kind in ("integer", "number"):
            return _number(flat, path, nth, kind == "integer")
        if kind == "null" and nth == 0:
            return None
        if kind == "boolean" and nth < 2:
            return nth == 1
        raise SchemaValueError(path, f"its type is `{kind}`" + (", which has no more values" if nth else ""))

    def _text(self, flat: Schema, path: str, nth: int) -> str:
        try:
            return text_for(flat, re.sub(r"(\[\d+\])*$", "", path).rpartition(".")[2], nth)
        except ValueError as error:
            raise SchemaValueError(path, str(error)) from error

    # -- what a schema comes to ------------------------------------------------------------------------

    def _flat(self, schema: Schema | bool, path: str, active: frozenset[str]) -> tuple[Schema, frozenset[str]]:
        """The schema with what it refers to and all of its `allOf` merged in, and the references then around it."""
        if isinstance(schema, bool):
            if not schema:
                raise SchemaValueError(path, "nothing may stand there")
            return {}, active
        own = dict(schema)
        inner: list[Schema] = []
        for reference in filter(None, (own.pop("$ref", None), own.pop("ref", None))):
            if reference in active:
                raise _EndlessError(path, f"`{reference}` contains itself, and nothing ends it")
            flat, active = self._flat(self._found(reference, path), path, active | {reference})
            inner.append(flat)
        for each in own.pop("allOf", ()):
            flat, active = self._flat(each, path, active)
            inner.append(flat)
        if "oneOf" in own:
            inner.append({"anyOf": own.pop("oneOf")})
        merged: dict[str, Any] = {}
        for each in (*inner, own):
            _merge(merged, each)
        return merged, active

    def _found(self, reference: str, path: str) -> Schema | bool:
        """The schema that a reference of this document names."""
        place: Any = self._root
        try:
            for step in reference.partition("#")[2].split("/")[1:]:
                step = unquote(step).replace("~1", "/").replace("~0", "~")
                place = place[int(step) if isinstance(place, list) else step]
        except (LookupError, ValueError, TypeError) as error:
            raise SchemaValueError(path, f"`{reference}` is not in the schema") from error
        return place

    # -- what holds others -------------------------------------------------------------------------------

    def _object(self, flat: Schema, path: str, active: frozenset[str], nth: int) -> JsonValue:
        properties: dict[str, Any] = flat.get("properties") or {}
        required: list[str] = flat.get("required") or []
        named = {**properties, **{name: self._additional(flat) for name in required if name not in properties}}
        least: int = flat.get("minProperties", 0)
        made: dict[str, JsonValue] = {}
        self._depth += 1
        try:
            wanted = self._optional and self._depth <= _MAX_DEPTH
            missing = least - len(required)
            for name, held in named.items():
                if name not in required and not wanted and missing <= 0:
                    continue
                try:
                    made[name] = self.value(held, f"{path}.{name}", active, nth)
                except _EndlessError:
                    if name in required:
                        raise
                missing -= name not in required
            open_ended = isinstance(flat.get("additionalProperties"), Mapping) or "patternProperties" in flat
            count = max(least - len(made), int(wanted and open_ended and not made), int(nth > 0 and not made))
            if count > 0:
                self._add(made, count, flat, path, active, nth)
        finally:
            self._depth -= 1
        return made

    def _add(
        self, made: dict[str, JsonValue], count: int, flat: Schema, path: str, active: frozenset[str], nth: int
    ) -> None:
        """Add properties that have no names of their own."""
        names = flat.get("propertyNames")
        if names is None:
            names = {"pattern": next(iter(flat["patternProperties"]))} if flat.get("patternProperties") else {}
        held = self._additional(flat)
        try:
            for key in self._different({"type": "string", **names}, f"{path}.key", active, count, nth, tuple(made)):
                made[str(key)] = self.value(held, f"{path}.{key}", active, nth)
        except _EndlessError:
            if len(made) < flat.get("minProperties", 0):
                raise

    def _additional(self, flat: Schema) -> Schema | bool:
        """The schema of properties that are not named."""
        patterns: dict[str, Any] = flat.get("patternProperties") or {}
        return next(iter(patterns.values())) if patterns else flat.get("additionalProperties", True)

    def _array(self, flat: Schema, path: str, active: frozenset[str], nth: int) -> JsonValue:
        items: Any = flat.get("items", True)
        first: list[Any] = flat.get("prefixItems") or (cast(list[Any], items) if isinstance(items, list) else [])
        rest: Any = flat.get("additionalItems", True) if isinstance(items, list) else items
        least, most = int(flat.get("minItems", 0)), int(flat.get("maxItems", _MAX_TRIES))
        if least > most:
            raise SchemaValueError(path, f"it has at least {least}, but at most {most} items")
        count = max(least, min(len(first), most))
        made = [self.value(each, f"{path}[{at}]", active, nth) for at, each in enumerate(first[:count])]
        if count > len(made):
            if flat.get("uniqueItems"):
                return [*made, *self._different(rest, f"{path}[0]", active, count - len(made), nth, made)]
            return [*made, *(self.value(rest, f"{path}[{at}]", active, nth) for at in range(len(made), count))]
        spare = count == 0 and most > 0 and rest is not False
        if spare and (nth > 0 or (self._optional and "items" in flat)):
            try:
                return [self.value(rest, f"{path}[0]", active, max(nth - 1, 0))]
            except _EndlessError:
                pass
        return made

    def _different(
        self,
        schema: Schema | bool,
        path: str,
        active: frozenset[str],
        count: int,
        nth: int,
        beside: Sequence[JsonValue],
    ) -> list[JsonValue]:
        """Several values of a schema, all different, and none that is in `beside`."""
        seen = {json.dumps(value) for value in beside}
        made: list[JsonValue] = []
        for other in range(nth, nth + count + len(seen) + _MAX_TRIES):
            value = self.value(schema, path, active, other)
            mark = json.dumps(value)
            if mark not in seen:
                seen.add(mark)
                made.append(value)
            if len(made) == count:
                return made
        raise SchemaValueError(path, f"{count} different values are needed")


def _first(makers: Sequence[Callable[[], JsonValue]], path: str) -> JsonValue:
    """The value of the first that makes one. Raises what the first of them raised that is not about recursion."""
    errors: list[SchemaValueError] = []
    for make in makers:
        try:
            return make()
        except SchemaValueError as error:
            errors.append(error)
    if not errors:
        raise SchemaValueError(path, "no type is left that it could have")
    raise next((error for error in errors if not isinstance(error, _EndlessError)), errors[0])


# -- reading schemas -------------------------------------------------------------------------------------


def _kinds(flat: Schema, path: str) -> list[str]:
    """The types that a value may have, null last; guessed from the other keys where none is given."""
    named: Any = flat.get("type")
    if named is None:
        return [next((kind for kind, keys in _TELLING.items() if not keys.isdisjoint(flat)), "string")]
    kinds = [str(kind).lower() for kind in (cast(list[Any], named) if isinstance(named, list) else [named])]
    if flat.get("nullable"):
        kinds.append("null")
    unknown = [kind for kind in kinds if kind not in _TYPES and kind != "type_unspecified"]
    if unknown:
        raise SchemaValueError(path, f"its type `{unknown[0]}` is unknown")
    return sorted(("string" if kind == "type_unspecified" else kind for kind in kinds), key="null".__eq__)


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_TELLING: dict[str, set[str]] = {
    "object": {"properties", "required", "additionalProperties", "patternProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems", "uniqueItems"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}


def _is_null(schema: Schema | bool) -> bool:
    return isinstance(schema, Mapping) and str(schema.get("type")).lower() == "null"


def _given(flat: Schema, nth: int) -> list[JsonValue]:
    """The value that the schema itself names, if it does."""
    named: list[Any] = [flat["const"]] if "const" in flat else list(flat.get("enum") or ())
    if named:
        fitting = [each for value in named for each in _fitting(value, flat)]
        fitting.sort(key=lambda value: value is None)
        return fitting[nth : nth + 1]
    if nth:
        return []
    named = [flat.get("default"), flat.get("example"), *(flat.get("examples") or ())]
    return [each for value in named if value is not None for each in _fitting(value, flat)][:1]


def _fitting(value: Any, flat: Schema) -> Iterator[JsonValue]:
    """The value, if its type and size are those of the schema; Gemini's enums write numbers as texts."""
    named: Any = flat.get("type", ())
    kinds = {str(kind).lower() for kind in ((named,) if isinstance(named, str) else named)} - {"type_unspecified"}
    if kinds and flat.get("nullable"):
        kinds.add("null")
    if isinstance(value, str) and "string" not in kinds and kinds & {"integer", "number"}:
        try:
            value = json.loads(value)
        except ValueError:
            return
    allowed = {kind for kind in kinds if isinstance(value, _TYPES.get(kind, ()))}
    if isinstance(value, bool):
        allowed &= {"boolean"}
    if (kinds and not allowed) or not _is_in_bounds(value, flat):
        return
    yield value


def _is_in_bounds(value: Any, flat: Schema) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _Bounds(flat).hold(Fraction(str(value)))
    for kind, least, most in ((str, "minLength", "maxLength"), (list, "minItems", "maxItems")):
        if isinstance(value, kind):
            return flat.get(least, 0) <= len(cast(str, value)) <= flat.get(most, len(cast(str, value)))
    return True


# -- merging ---------------------------------------------------------------------------------------------


def _merge(merged: dict[str, Any], other: Schema) -> None:
    """Narrow `merged` to what fits `other` too."""
    for key, held in other.items():
        if key not in merged:
            merged[key] = held
        elif key in _MERGED:
            merged[key] = _MERGED[key](merged[key], held)
        elif key == "anyOf":
            merged[key] = [{"allOf": [one, two]} for one in merged[key] for two in held]
        else:
            merged[key] = held


def _both(one: Any, other: Any) -> Any:
    return one if one == other else {"allOf": [one, other]}


def _all_properties(one: Schema, other: Schema) -> Schema:
    both = {name: _both(one[name], other[name]) for name in one if name in other}
    return {**one, **other, **both}


def _common_types(one: Any, other: Any) -> list[str]:
    """The types that both allow; an integer is a number."""
    left, right = ([str(kind).lower() for kind in ([each] if isinstance(each, str) else each)] for each in (one, other))
    kept = [kind for kind in left if kind in right or (kind == "integer" and "number" in right)]
    return kept + ["integer" for kind in right if kind == "integer" and "number" in left and "integer" not in kept]


_MERGED: dict[str, Callable[[Any, Any], Any]] = {
    "type": _common_types,
    "properties": _all_properties,
    "patternProperties": _all_properties,
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "enum": lambda one, other: [value for value in one if value in other],
    "items": _both,
    "additionalProperties": _both,
    "propertyNames": _both,
    "nullable": lambda one, other: one and other,
    "uniqueItems": lambda one, other: one or other,
    "pattern": lambda one, other: [*_listed(one), *_listed(other)],
    "multipleOf": lambda one, other: float(_common_multiple(Fraction(str(one)), Fraction(str(other)))),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


def _listed(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


# -- numbers ---------------------------------------------------------------------------------------------


def _common_multiple(one: Fraction, other: Fraction) -> Fraction:
    return Fraction(lcm(one.numerator, other.numerator), gcd(one.denominator, other.denominator))


class _Bounds:
    """Between what a number may be; `exclusive...` is a number of its own, or says so of `minimum` and `maximum`."""

    def __init__(self, flat: Schema) -> None:
        self.low, self.low_open = self._side(flat, "inimum", max)
        self.high, self.high_open = self._side(flat, "aximum", min)

    def _side(self, flat: Schema, name: str, stricter: Callable[..., Fraction]) -> tuple[Fraction | None, bool]:
        closed, opened = flat.get(f"m{name}"), flat.get(f"exclusiveM{name}")
        bound = None if closed is None else Fraction(str(closed))
        if opened is None or isinstance(opened, bool):
            return bound, bool(opened)
        edge = Fraction(str(opened))
        return (edge, True) if bound is None or stricter(bound, edge) == edge else (bound, False)

    def hold(self, value: Fraction) -> bool:
        """Whether a number is between them."""
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        return self.high is None or (value <= self.high and not (self.high_open and value == self.high))


def _number(flat: Schema, path: str, nth: int, whole: bool) -> int | float:
    step = Fraction(str(flat["multipleOf"])) if "multipleOf" in flat else None
    if whole:
        step = _common_multiple(step or Fraction(1), Fraction(1))
    bounds = _Bounds(flat)
    found = _between(bounds, nth) if step is None else _multiple(bounds, step, nth)
    if found is None:
        raise SchemaValueError(path, "no number" + (" that is still unused" if nth else "") + " is in its bounds")
    return int(found) if whole else float(found)


def _multiple(bounds: _Bounds, step: Fraction, nth: int) -> Fraction | None:
    """The multiple of `step` that is nearest to 0, or the `nth` after it, or before it where there is no more."""
    least = None if bounds.low is None else ceil(bounds.low / step)
    most = None if bounds.high is None else floor(bounds.high / step)
    if least is not None and not bounds.hold(least * step):
        least += 1
    if most is not None and not bounds.hold(most * step):
        most -= 1
    start = max(0, least) if least is not None else 0
    start = min(start, most) if most is not None else start
    at = start + nth
    if most is not None and at > most:
        at = start - (at - most)
    return at * step if bounds.hold(at * step) else None


def _between(bounds: _Bounds, nth: int) -> Fraction | None:
    low, high = bounds.low, bounds.high
    tries = [Fraction(nth)]
    if low is not None:
        tries += [low + nth, low + nth + 1]
    if high is not None:
        tries += [high - nth, high - nth - 1]
    if low is not None and high is not None:
        tries.append(low + (high - low) * Fraction(nth + 1, nth + 2))
    return next((each for each in tries if bounds.hold(each)), None)
