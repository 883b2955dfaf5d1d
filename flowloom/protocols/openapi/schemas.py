"""The schemas of a document as a model is told them: JSON Schema 2020-12, for requests (protocols spec §3, Declared).

`Schemas.read` converts one. What it refers to is put in its place if that is small and leads nowhere back; else it
stays a `$ref` to `$defs`, which `Schemas.defs_of` gives: a cycle is never unfolded. `allOf` is merged, the forms of 3.0
are those of 2020-12, and what only answers have (`readOnly`) is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from flowloom.protocols.openapi.allof import joined, merged
from flowloom.protocols.openapi.naming import hashed
from flowloom.protocols.words import cleaned

Schema = dict[str, Any]

INLINE_CHARACTERS = 1000
"""A schema that is longer as JSON text is referred to, and not repeated wherever it is used."""
EXAMPLE_CHARACTERS = 120
"""An example that is longer is left out, and of several one is told."""

_ONE = frozenset(
    "items not if then else contains propertyNames additionalItems unevaluatedItems contentSchema "
    "additionalProperties unevaluatedProperties".split()
)
_SEVERAL = frozenset({"oneOf", "anyOf", "prefixItems"})
_NAMED = frozenset({"patternProperties", "dependentSchemas"})
_LEFT_OUT = frozenset(
    "$ref allOf properties required description summary discriminator xml externalDocs example examples nullable "
    "writeOnly $id $anchor $schema $comment $defs definitions $dynamicRef $dynamicAnchor $recursiveRef "
    "$recursiveAnchor".split()
)
_NAME = re.compile(r"[^A-Za-z0-9_.-]")


class DescriptionError(Exception):
    """Something of a document cannot be described to a model; the text says what."""


class Place(NamedTuple):
    """Something in a document, and how what it refers to is looked up from there."""

    value: Any
    look_up: Callable[[str], Place]
    """What a reference leads to. Raises `DescriptionError`."""


class Schemas:
    """Converts the schemas of one document; `legacy` says that it is one of OpenAPI 3.0."""

    BUDGET = 20_000
    """How many schemas one operation may be made of."""

    def __init__(self, *, legacy: bool) -> None:
        self._legacy = legacy
        self._read: dict[int, Schema] = {}
        self._kept: list[Any] = []  # what is known by its id may not go
        self._open: list[int] = []
        self._cyclic: set[int] = set()
        self._long: dict[int, bool] = {}
        self._names: dict[int, str] = {}
        self._taken: dict[str, int] = {}
        self.left = self.BUDGET
        """How many schemas may still be read for the operation that is being described."""

    def read(self, place: Place) -> Schema:
        """The schema at `place`. Raises `DescriptionError` for what is none."""
        value = place.value
        self.left -= 1
        if self.left < 0:
            raise DescriptionError(f"it is made of more than {self.BUDGET} schemas")
        if isinstance(value, bool):
            return {} if value else {"not": {}}
        if not isinstance(value, dict):
            raise DescriptionError(f"there is {value!r:.60} where a schema is expected")
        source = cast(Schema, value)
        own = self._own(source, place)
        if "$ref" in source:
            own = self._beside(own, self._referred(source["$ref"], place))
        if "allOf" in source:
            members = [self._expanded(each, place) for each in _list(source, "allOf")]
            own = merged([*members, own], described=own)
        if "properties" in own:
            _without_read_only(own, self._is_read_only)
        if self._legacy and source.get("nullable") is True:
            own = nullable(own)
        if "discriminator" in source:
            _tell_discriminator(own, source["discriminator"], _list(source, "oneOf") or _list(source, "anyOf"))
        return own

    def expanded(self, place: Place) -> Schema:
        """The schema at `place` with what it refers to in its place, so that its properties can be seen."""
        schema = self.read(place)
        reference = schema.get("$ref")
        if reference is None:
            return schema
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return merged([self._by_name(reference), rest], described=rest)

    def defs_of(self, *schemas: Schema) -> dict[str, Schema]:
        """What the `schemas` refer to, directly or not, by name."""
        found: dict[str, Schema] = {}
        waiting = [name for schema in schemas for name in _references(schema)]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self._by_name(name)
                waiting.extend(_references(found[name]))
        return {name: found[name] for name in sorted(found)}

    # -- one schema -------------------------------------------------------------------------------

    def _own(self, source: Schema, place: Place) -> Schema:
        """What a schema says itself, beside what it refers to and puts together."""
        own: Schema = {}
        description = source.get("description")
        if isinstance(description, str) and description.strip():
            own["description"] = cleaned(description).strip()
        for key, value in source.items():
            if key in _LEFT_OUT or key.startswith("x-"):
                continue
            if key in _ONE:
                own[key] = value if isinstance(value, bool) and key not in ("items", "not") else self._at(value, place)
            elif key in _SEVERAL:
                own[key] = [self._at(each, place) for each in _list(source, key)]
            elif key in _NAMED:
                own[key] = {name: self._at(each, place) for name, each in _object(source, key).items()}
            else:
                own[key] = value
        if "properties" in source:
            own["properties"] = {name: self._at(each, place) for name, each in _object(source, "properties").items()}
        if isinstance(source.get("required"), list):
            own["required"] = [name for name in source["required"] if isinstance(name, str)]
        if own.get("deprecated") is True:
            own["description"] = joined("Deprecated.", own.get("description"))
        examples = _short_examples(source)
        if examples:
            own["examples"] = examples
        if self._legacy:
            _modernise(own)
        return own

    def _at(self, value: Any, place: Place) -> Schema:
        return self.read(Place(value, place.look_up))

    def _beside(self, own: Schema, target: Schema) -> Schema:
        """What a reference leads to, with what stands beside it."""
        if not own:
            return target
        if "$ref" in target:
            return {**target, **own}
        return merged([target, own], described={**target, **own})

    # -- references -------------------------------------------------------------------------------

    def _referred(self, reference: Any, place: Place) -> Schema:
        """What stands for a reference: the schema itself, or a `$ref` to it."""
        key, schema = self._target(reference, place)
        if schema is None or key in self._cyclic or self._is_long(key, schema):
            return {"$ref": f"#/$defs/{self._names[key]}"}
        return dict(schema)

    def _expanded(self, value: Any, place: Place) -> Schema:
        """A member of `allOf`: what it refers to in its place, unless that is just being read."""
        schema = self._at(value, place)
        if "$ref" not in schema:
            return schema
        known = self._known(schema["$ref"])
        if known is None:
            return {"allOf": [schema]} if len(schema) > 1 else schema
        rest = {key: each for key, each in schema.items() if key != "$ref"}
        return merged([known, rest], described=rest or known)

    def _target(self, reference: Any, place: Place) -> tuple[int, Schema | None]:
        """The key of what a reference leads to, and its schema; None if that is just being read."""
        if not isinstance(reference, str):
            raise DescriptionError(f"there is {reference!r:.60} where a reference is expected")
        found = place.look_up(reference)
        key = id(found.value)
        if key in self._read:
            return key, self._read[key]
        self._name(key, reference)
        if key in self._open:
            self._cyclic.add(key)
            return key, None
        self._open.append(key)
        try:
            schema = self.read(found)
        finally:
            self._open.pop()
        if schema.get("$ref") == f"#/$defs/{self._names[key]}":
            raise DescriptionError(f"the reference `{reference}` leads to itself")
        self._read[key] = schema
        self._kept.append(found.value)
        return key, schema

    def _name(self, key: int, reference: str) -> None:
        if key in self._names:
            return
        name = _NAME.sub("_", reference.rpartition("/")[2].rpartition("#")[2]) or "schema"
        if name in self._taken:
            name = hashed(name, reference)
        self._names[key] = name
        self._taken[name] = key

    def _by_name(self, reference: str) -> Schema:
        known = self._known(reference)
        if known is None:
            raise DescriptionError(f"what `{reference.rpartition('/')[2]}` refers to cannot be described")
        return known

    def _known(self, reference: str) -> Schema | None:
        """The definition that a `$ref` of ours names; None while it is being read."""
        return self._read.get(self._taken[reference.rpartition("/")[2]])

    def _is_long(self, key: int, schema: Schema) -> bool:
        """Whether a schema is better referred to than repeated."""
        if key not in self._long:
            self._long[key] = len(json.dumps(schema, default=str)) > INLINE_CHARACTERS
        return self._long[key]

    def _is_read_only(self, schema: Schema) -> bool:
        if "$ref" in schema:
            schema = self._known(schema["$ref"]) or {}
        return schema.get("readOnly") is True


def nullable(schema: Schema) -> Schema:
    """`schema`, or null."""
    kind = schema.get("type")
    if isinstance(kind, str):
        kinds = [kind]
    elif isinstance(kind, list):
        kinds = cast(list[str], kind)
    else:
        if not schema.keys() - {"description"}:
            return schema
        told = {key: schema[key] for key in ("description", "default") if key in schema}
        return told | {"anyOf": [{k: v for k, v in schema.items() if k not in told}, {"type": "null"}]}
    schema = schema | {"type": kinds if "null" in kinds else [*kinds, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if "const" in schema:
        schema["enum"] = [schema.pop("const"), None]
    return schema


def _modernise(schema: Schema) -> None:
    """Bounds of OpenAPI 3.0 as those of 2020-12."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and bound in schema:
            schema[exclusive] = schema.pop(bound)
        elif isinstance(schema.get(exclusive), bool):
            del schema[exclusive]


def _short_examples(source: Schema) -> list[Any]:
    given: Any = source.get("examples")
    listed = cast(list[Any], given) if isinstance(given, list) else []
    if "example" in source:
        listed = [source["example"], *listed]
    return [each for each in listed[:1] if len(json.dumps(each, default=str)) <= EXAMPLE_CHARACTERS]


def _without_read_only(schema: Schema, is_read_only: Callable[[Schema], bool]) -> None:
    """Leave out the properties that only answers have."""
    properties: dict[str, Schema] = schema["properties"]
    gone = {name for name, each in properties.items() if is_read_only(each)}
    if gone:
        schema["properties"] = {name: each for name, each in properties.items() if name not in gone}
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name not in gone]


def _tell_discriminator(schema: Schema, discriminator: Any, members: list[Any]) -> None:
    """Say in the description which property tells the alternatives apart, and by which values."""
    if not isinstance(discriminator, dict):
        return
    held = cast(dict[str, Any], discriminator)
    name, mapping = held.get("propertyName"), held.get("mapping")
    if not isinstance(name, str):
        return
    if isinstance(mapping, dict):
        values = [str(value) for value in cast(dict[str, Any], mapping)]
    else:
        references = [cast(Schema, each).get("$ref") for each in members if isinstance(each, dict)]
        values = [str(each).rpartition("/")[2] for each in references if each]
    told = f"`{name}` says which it is" + (f": {', '.join(f'`{value}`' for value in values)}." if values else ".")
    schema["description"] = joined(schema.get("description"), told)


def _references(schema: Any) -> Iterator[str]:
    """The names of definitions that a schema refers to."""
    waiting = [schema]
    while waiting:
        held = waiting.pop()
        if isinstance(held, dict):
            for key, value in cast(dict[str, Any], held).items():
                if key == "$ref" and isinstance(value, str) and value.startswith("#/$defs/"):
                    yield value.rpartition("/")[2]
                elif isinstance(value, (dict, list)) and key not in ("examples", "default", "enum", "const"):
                    waiting.append(value)
        elif isinstance(held, list):
            waiting.extend(cast(list[Any], held))


def _list(source: Schema, key: str) -> list[Any]:
    value = source.get(key)
    return cast(list[Any], value) if isinstance(value, list) else []


def _object(source: Schema, key: str) -> dict[str, Any]:
    value = source.get(key)
    if not isinstance(value, dict):
        raise DescriptionError(f"there is {value!r:.60} for `{key}`")
    return cast(dict[str, Any], value)
