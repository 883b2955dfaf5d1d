"""JSON schemas, and Gemini's dialect of them, as validators (spec §10.7).

Schemas and data may come from anywhere, and neither can stop the process: references that lead back to themselves
without going into the data are refused when the schema is given, patterns are matched without backtracking, and each
part of the data is held against each part of the schema once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import unquote

from pydantic_core import InitErrorDetails, SchemaError, SchemaValidator, ValidationError
from pydantic_core import core_schema as core

from flowloom.errors import ConfigurationError
from flowloom.schemas.parts import TOO_DEEP, ListPart, ObjectPart, Part, Seen

MAX_SCHEMA_DEPTH = 100
"""How deep a schema may be nested; what it refers to counts anew."""
_STRICT = core.CoreConfig(strict=True)
_OBJECT_KEYS = ("properties", "patternProperties", "propertyNames", "required")
_CHOICES = ("anyOf", "oneOf")
_BOUNDS = (
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)
_RULES = (*_OBJECT_KEYS, *_BOUNDS, "enum", "const", "items", "prefixItems", "minItems", "maxItems")
"""What counts beside the members that a schema puts together. A type does not: google-genai writes `OBJECT` there."""
_HeldT = TypeVar("_HeldT")


def validator_of(schema: Mapping[str, Any]) -> JsonValidator:
    """A strict validator of JSON data: nothing is converted, and a property that the schema does not name is wrong, but
    for objects of which several schemas speak (`allOf`, or choices beside `properties`).

    Type names are read in any case. A `$ref` names a place in the same schema. Raises `ConfigurationError`, which names
    the place: for an unknown type, a reference that leads nowhere, elsewhere, or back to itself, a pattern that cannot
    be matched without backtracking, and for nesting of more than `MAX_SCHEMA_DEPTH`.
    """
    return JsonValidator(_Reader(schema).root)


class JsonValidator:
    """Checks JSON data against a schema. `validator_of` makes it."""

    def __init__(self, root: Part) -> None:
        self._root = root

    def validate_python(self, data: Any, *, strict: bool = True) -> Any:
        """The data itself; raises pydantic's `ValidationError`, which tells each problem with its place."""
        seen: Seen = {}
        try:
            if self._root.fits(data, seen, 0):
                return data
            problems = list(self._root.problems(data, seen, (), set()))
        except RecursionError:
            problems = [InitErrorDetails(type=TOO_DEEP, input=data)]
        raise ValidationError.from_exception_data("JSON", problems, input_type="json")

    def validate_json(self, text: str) -> Any:
        """The same for data in JSON text."""
        return self.validate_python(json.loads(text))


class _Reader:
    """Reads a schema into parts; each place that a reference names once."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._places: dict[tuple[str, bool], Part] = {}
        self._parts: list[Part] = []
        self._leaves: dict[Any, Callable[[Any], Any]] = {}
        self._left: list[tuple[Part, Any, bool]] = []
        """References that were met, and what stands at their places: that is read later, and not deeper."""
        try:
            self.root = self._part(schema, "#", 0)
            while self._left:
                part, found, among = self._left.pop()
                part.refer_to(self._part(found, part.where, 0, among=among))
        except (SchemaError, RecursionError) as error:
            raise ConfigurationError(f"The JSON schema cannot be read: {error}") from error
        self._check_references()

    def _part(self, schema: Any, where: str, depth: int, *, among: bool = False) -> Part:
        """What a schema says. `where` is its place, for errors. An object `among` several schemas for the same data may
        have properties that it does not name."""
        part = self._made(where)
        if depth >= MAX_SCHEMA_DEPTH:
            raise ConfigurationError(f"The JSON schema is nested {depth} levels deep, at `{where[:200]}…`.")
        if schema is True:
            part.leaf = _anything
        elif schema is False:
            part.choices = []
        elif isinstance(schema, Mapping):
            self._read(part, cast(Mapping[str, Any], schema), where, depth + 1, among)
        else:
            raise ConfigurationError(f"The JSON schema has {schema!r:.60} at `{where}`, where a schema is expected.")
        return part

    def _read(self, part: Part, schema: Mapping[str, Any], where: str, depth: int, among: bool) -> None:
        if "$ref" in schema:
            part.refer_to(self._referred(schema["$ref"], where, among))
            return
        part.nullable = bool(schema.get("nullable")) or "null" in _kinds_of(schema)
        members = {key: _held(schema, key, list[Any], where) or [] for key in ("allOf", *_CHOICES)}
        choices = [key for key in _CHOICES if members[key]]
        rest = {name: value for name, value in schema.items() if name not in members}
        says_more = any(members.values()) and any(schema.get(name) not in (None, [], {}) for name in _RULES)
        among = among or len(members["allOf"]) + len(choices) + says_more > 1

        def read(key: str) -> list[Part]:
            return [self._part(each, f"{where}/{key}/{n}", depth, among=among) for n, each in enumerate(members[key])]

        together = read("allOf") + ([self._part(rest, where, depth, among=among)] if says_more else [])
        if not together and len(choices) == 1:
            part.choose(read(choices[0]))
        elif together or choices:
            for key in choices:
                together.append(self._made(f"{where}/{key}"))
                together[-1].choose(read(key))
            part.put_together(together)
        else:
            self._read_own(part, schema, where, depth, among)

    def _made(self, where: str) -> Part:
        part = Part(where)
        self._parts.append(part)
        return part

    def _read_own(self, part: Part, schema: Mapping[str, Any], where: str, depth: int, among: bool) -> None:
        """Read what a schema says by itself."""
        kinds = _kinds_of(schema)
        if "enum" in schema or "const" in schema:
            values = _held(schema, "enum", list[Any], where) if "enum" in schema else [schema["const"]]
            part.leaf = SchemaValidator(core.literal_schema(values or []), _STRICT).validate_python
            return
        if "object" in kinds:
            part.object = self._object(schema, where, depth, among)
        if "array" in kinds:
            part.list = self._list(schema, where, depth)
        plain = tuple(sorted(kinds - {"object", "array"}))
        if plain:
            part.leaf = _anything if "any" in plain else self._leaf(plain, schema, where)

    def _list(self, schema: Mapping[str, Any], where: str, depth: int) -> ListPart:
        items = self._part(schema.get("items", True), f"{where}/items", depth)
        given = enumerate(_held(schema, "prefixItems", list[Any], where) or ())
        first = [self._part(each, f"{where}/prefixItems/{n}", depth) for n, each in given]
        low, high = (_held(schema, key, int, where) for key in ("minItems", "maxItems"))
        return ListPart(first, items, low, high)

    def _object(self, schema: Mapping[str, Any], where: str, depth: int, among: bool) -> ObjectPart:
        held = _held(schema, "properties", dict[str, Any], where) or {}
        properties = {name: self._part(each, f"{where}/properties/{name}", depth) for name, each in held.items()}
        patterns: list[tuple[Callable[[str], bool], Part]] = []
        for pattern, each in (_held(schema, "patternProperties", dict[str, Any], where) or {}).items():
            place = f"{where}/patternProperties/{pattern}"
            matches = SchemaValidator(_pattern(pattern, place)).isinstance_python
            patterns.append((matches, self._part(each, place, depth)))
        names = schema.get("propertyNames")
        if isinstance(names, Mapping):  # which are texts, whether it says so or not
            names = {"type": "string", **cast(Mapping[str, Any], names)}
        required = _held(schema, "required", list[str], where) or []
        anything = self._part(True, where, depth)
        for name in required:
            properties.setdefault(name, anything)
        extra = schema.get("additionalProperties", among or not properties)
        return ObjectPart(
            properties,
            required,
            patterns,
            None if names is None else self._part(names, f"{where}/propertyNames", depth),
            None if extra is False else self._part(extra, f"{where}/additionalProperties", depth),
        )

    def _leaf(self, kinds: tuple[str, ...], schema: Mapping[str, Any], where: str) -> Callable[[Any], Any]:
        """What checks values that hold no others, made once for all places that ask for the same."""
        bounds = tuple(map(schema.get, _BOUNDS))
        key = (kinds, repr(bounds))
        if key not in self._leaves:
            found = core.union_schema([_kind(kind, schema, where) for kind in kinds])
            self._leaves[key] = SchemaValidator(found, _STRICT).validate_python
        return self._leaves[key]

    def _referred(self, reference: Any, where: str, among: bool) -> Part:
        """The part at the place that a reference names."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise ConfigurationError(
                f"The JSON schema refers to {reference!r:.200} at `{where}`. Only places within the schema itself are "
                f"looked up, such as `#/$defs/city`: put there what is referred to."
            )
        key = (reference, among)
        if key not in self._places:
            part = self._places[key] = self._made(reference)
            self._left.append((part, self._found(reference, where), among))
        return self._places[key]

    def _found(self, reference: str, where: str) -> Any:
        """What stands at a place, a JSON pointer behind `#`."""
        found: Any = self._schema
        for step in reference.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                found = cast(Any, found[int(step)] if isinstance(found, list) else found[step])
            except (LookupError, TypeError, ValueError):
                raise ConfigurationError(
                    f"The JSON schema refers to `{reference[:200]}` at `{where}`, where nothing is."
                ) from None
        return found

    def _check_references(self) -> None:
        """Raise `ConfigurationError` for parts that come back to themselves on the same data."""
        done: set[int] = set()
        for start in self._parts:
            if id(start) in done:
                continue
            trail: dict[int, tuple[Part, Iterator[Part]]] = {id(start): (start, iter(start.same))}
            while trail:
                part, rest = next(reversed(trail.values()))
                following = next(rest, None)
                if following is None:
                    del trail[id(part)]
                    done.add(id(part))
                elif id(following) in trail:
                    raise _goes_round([each.where for each, _ in trail.values()], following.where)
                elif id(following) not in done:
                    trail[id(following)] = (following, iter(following.same))


def _goes_round(trail: list[str], again: str) -> ConfigurationError:
    steps = list(dict.fromkeys(trail[trail.index(again) :]))
    shown = [*steps[:10], *(["…"] if len(steps) > 10 else []), again]
    return ConfigurationError(
        f"The JSON schema refers back to itself without going into the data: "
        f"{' -> '.join(f'`{step}`' for step in shown)}. Let the reference stand below `properties` or `items`."
    )


def _held(schema: Mapping[str, Any], key: str, kind: type[_HeldT], where: str) -> _HeldT | None:
    """What a schema has under a keyword. Raises `ConfigurationError` if it is of another kind."""
    held = schema.get(key)
    if kind is int and isinstance(held, str) and held.isdecimal():
        held = int(held)  # Gemini's JSON writes counts as texts
    if held is not None and not isinstance(held, getattr(kind, "__origin__", kind)):
        raise ConfigurationError(f"The JSON schema has {held!r:.60} for `{key}` at `{where}`.")
    return cast("_HeldT | None", held)


def _kinds_of(schema: Mapping[str, Any]) -> set[str]:
    """The types that a schema names, in lower case; `any` if it names none and does not look like an object's."""
    named: Any = schema.get("type") or ("object" if any(key in schema for key in _OBJECT_KEYS) else "any")
    return {str(kind).lower() for kind in (cast(list[Any], named) if isinstance(named, list | tuple) else [named])}


# `strict` stands on each kind by itself: inside of a union the config's is not heeded.


def _kind(kind: str, schema: Mapping[str, Any], where: str) -> core.CoreSchema:
    """What checks one kind of value that holds no others."""
    if kind == "string":
        low, high, pattern = (_held(schema, key, of, where) for key, of in _OF_STRINGS)
        texts = core.str_schema(min_length=low, max_length=high, strict=True)
        return texts if pattern is None else core.chain_schema([texts, _pattern(pattern, where)])
    if kind in ("integer", "number"):  # 2.0 is an integer too
        return core.float_schema(multiple_of=_step(kind, schema, where), **_limits(schema), strict=True)
    if kind == "boolean":
        return core.bool_schema(strict=True)
    if kind == "null":
        return core.none_schema()
    raise ConfigurationError(f"The JSON schema names the unknown type `{kind}` at `{where}`.")


def _step(kind: str, schema: Mapping[str, Any], where: str) -> float | None:
    """What numbers have to be multiples of."""
    step = schema.get("multipleOf")
    if step is not None and not (isinstance(step, int | float) and step > 0):
        raise ConfigurationError(f"The JSON schema has {step!r:.60} for `multipleOf` at `{where}`.")
    if kind == "integer":
        return float(step) if step is not None and float(step).is_integer() else 1
    return step


def _limits(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Between what numbers have to be. An exclusive bound is a number, or True for what the inclusive one says."""
    limits: dict[str, Any] = {"ge": schema.get("minimum"), "le": schema.get("maximum")}
    for name, inclusive, exclusive in (("exclusiveMinimum", "ge", "gt"), ("exclusiveMaximum", "le", "lt")):
        bound = schema.get(name)
        if bound is True:
            limits[exclusive] = limits.pop(inclusive)
        elif bound is not False:
            limits[exclusive] = bound
    return limits


_OF_STRINGS: list[tuple[str, type[Any]]] = [("minLength", int), ("maxLength", int), ("pattern", str)]


def _pattern(pattern: str, where: str) -> core.CoreSchema:
    """A text with a match of the pattern, which is found in time that is proportional to the text."""
    made = core.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
    try:
        SchemaValidator(made)
    except SchemaError as error:
        raise ConfigurationError(
            f"The JSON schema has the pattern `{pattern[:200]}` at `{where}`, which is not supported: patterns are "
            f"matched without backtracking, so that no text takes for ever, and cannot look around or refer back. "
            f"({str(error).strip().splitlines()[-1].strip()})"
        ) from error
    return made


def _anything(data: Any) -> None:
    """Every value fits."""
