"""Schemas of a server's tools: what is declared of them, and what checks arguments and results (JSON Schema 2020-12).

Whoever imports this module loads `jsonschema`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast
from urllib.parse import unquote

from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator
from pydantic_core import core_schema as core
from referencing import Registry

from flowloom.errors import ToolArgumentsError, ToolResultError
from flowloom.protocols.words import cleaned

_log = logging.getLogger("flowloom.protocols")
OPEN_OBJECT: dict[str, Any] = {"type": "object"}
MAX_PROBLEMS = 20
MOST_LOOKS = 5000
"""How often a schema may look at one part of the data."""
_IN_PLACE = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""What applies further schemas to the same part of the data."""
_Checker: Any = Draft202012Validator
_validators: Any = validators  # which have no types


class ToolSchema:
    """A schema as it is declared, and the check of data against it.

    `given` is the server's; one that cannot be used becomes an open object, with a warning about the tool `name`.
    """

    def __init__(self, given: Mapping[str, Any], name: str) -> None:
        self.declared: dict[str, Any] = dict(given)
        problem = _problem_of(self.declared)
        self.usable = problem is None
        if problem is not None:
            _log.warning("The schema of tool `%s` cannot be used (%s): any arguments are taken.", name, problem)
            self.declared = OPEN_OBJECT
        self._checker: Any = _Bounded(self.declared, registry=cast(Any, Registry)())
        self._plain = _plain_types(self.declared)
        self._required: frozenset[str] = frozenset(self.declared.get("required") or ())
        self.declared = cast(dict[str, Any], _with_clean_words(self.declared))

    def takes_null(self, name: str) -> bool:
        """Whether the argument `name` may be null; one that is not described may not."""
        properties: Mapping[str, Any] = self.declared.get("properties", {})
        schema = properties.get(name, self.declared.get("additionalProperties", False))
        return self._checker.evolve(schema={"$defs": self.declared.get("$defs", {}), "allOf": [schema]}).is_valid(None)

    def check_arguments(self, args: Mapping[str, Any], tool: str) -> None:
        """Raise `ToolArgumentsError` unless `args` fit; it names each argument that does not, of the tool named."""
        if self._fit_plainly(args):
            return
        told = [f"- {_place(error)}{error.message[:300]}" for error in self._errors(args)]
        if told:
            raise ToolArgumentsError("\n".join([f"The arguments of `{tool}` do not fit its parameters:", *told]))

    def _fit_plainly(self, args: Mapping[str, Any]) -> bool:
        """Whether `args` fit, which can be told at a glance: most schemas ask for plain types, and most calls fit."""
        plain = self._plain
        if plain is None or not self._required <= args.keys():
            return False
        return all(type(value) in plain.get(name, ()) for name, value in args.items())

    def check_result(self, data: Any, tool: str) -> None:
        """Raise `ToolResultError` unless `data` fits, which the server gave as the result of the tool named."""
        told = [f"- {_place(error)}{error.message[:300]}" for error in self._errors(data)]
        if told:
            raise ToolResultError(
                "\n".join([f"The result of `{tool}` is not of the form that its server promises:", *told])
            )

    def _errors(self, data: Any) -> list[ValidationError]:
        try:
            found: list[ValidationError] = []
            for error in self._checker.iter_errors(data):
                found.append(error)
                if len(found) == MAX_PROBLEMS:
                    break
        except RecursionError:
            return [ValidationError("is nested too deep")]
        return found


_PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_WORDS = frozenset(("title", "description", "default", "examples", "$comment", "deprecated"))
"""What a schema may hold that asks for nothing."""
_KNOWN = _WORDS | {"$schema", "type", "properties", "required", "additionalProperties"}


def _plain_types(schema: Mapping[str, Any]) -> dict[str, tuple[type, ...]] | None:
    """The types that the arguments may have, by name, if the schema asks for no more than these; else None."""
    properties: dict[str, Any] = schema.get("properties") or {}
    if not schema.keys() <= _KNOWN:
        return None
    found: dict[str, tuple[type, ...]] = {}
    for name, each in properties.items():
        if not isinstance(each, dict) or not cast(dict[str, Any], each).keys() <= _WORDS | {"type"}:
            return None
        kind: Any = cast(dict[str, Any], each).get("type")
        if not isinstance(kind, str) or kind not in _PLAIN:
            return None
        found[name] = _PLAIN[kind]
    return found


def _place(error: ValidationError) -> str:
    """Which argument an error is about; for one that is missing, its message says so."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path]
    return f"`{''.join(steps).lstrip('.')}`: " if steps else ""


def _problem_of(schema: dict[str, Any]) -> str | None:
    """Why a schema cannot be used, or None."""
    try:
        _Checker.check_schema(schema)
        for reference in _references(schema):
            if not _leads_somewhere(schema, reference):
                return f"`$ref` to {reference!r:.100} leads nowhere"
        if _looks(schema) > MOST_LOOKS:
            return f"it looks more than {MOST_LOOKS} times at the same data"
    except SchemaError as error:
        return error.message[:200]
    except RecursionError:
        return "it is nested too deep"
    return None


def _references(schema: Any) -> Iterator[str]:
    """What a schema refers to; data under `const`, `enum`, `default` and `examples` is none of it."""
    if isinstance(schema, dict):
        for key, value in cast(dict[str, Any], schema).items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(value)
    elif isinstance(schema, list):
        for value in cast(list[Any], schema):
            yield from _references(value)


def _leads_somewhere(schema: Any, reference: str) -> bool:
    """Whether a reference names a place in the schema."""
    return isinstance(_place_of(schema, reference), dict | bool)


def _place_of(schema: Any, reference: str) -> Any:
    """What stands where a reference leads: by a pointer, or by an anchor; None if nothing does. No other document is
    fetched."""
    if reference == "#":
        return schema
    if not reference.startswith("#/"):
        return _anchored(schema, reference[1:]) if reference.startswith("#") else None
    found: Any = schema
    for step in reference[2:].split("/"):
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        try:
            found = cast(Any, found[int(step)] if isinstance(found, list) else found[step])
        except (LookupError, TypeError, ValueError):
            return None
    return found


def _anchored(schema: Any, name: str) -> Any:
    """The schema in another one that has the anchor `name`; None if there is none."""
    held = cast(dict[str, Any], schema) if isinstance(schema, dict) else {}
    if name in (held.get("$anchor"), held.get("$dynamicAnchor")):
        return held
    inner: Any = cast(Any, schema) if isinstance(schema, list) else held.values()
    return next((found for each in inner if (found := _anchored(each, name)) is not None), None)


def _looks(schema: Any) -> int:
    """How often the part of a schema that looks most often at one part of the data does so; of what leads back to
    itself in place, each is counted once."""
    counted: dict[int, int] = {}
    waiting: list[Any] = [schema]

    def looks(part: Any) -> int:
        if not isinstance(part, dict):
            return 1
        known = counted.get(id(cast(Any, part)))
        if known is not None:
            return known
        counted[id(cast(Any, part))] = 1
        held, total = cast(dict[str, Any], part), 1
        for name in _IN_PLACE:
            if name in held:
                given = held[name]
                total += sum(map(looks, _applied(schema, name, given)))
        counted[id(held)] = min(total, MOST_LOOKS + 1)
        return counted[id(held)]

    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            looks(cast(Any, part))
            waiting += cast(dict[str, Any], part).values()
        elif isinstance(part, list):
            waiting += cast(list[Any], part)
    return max(counted.values(), default=0)


def _applied(schema: Any, name: str, given: Any) -> list[Any]:
    """The schemas that a keyword applies to the same data."""
    if name in ("$ref", "$dynamicRef"):
        return [_place_of(schema, given)] if isinstance(given, str) else []
    if isinstance(given, list):
        return cast(list[Any], given)
    return [*cast(dict[str, Any], given).values()] if name == "dependentSchemas" else [given]


def _with_clean_words(schema: Any) -> Any:
    """A schema whose titles and descriptions hold no invisible character; the same object if none did."""
    if isinstance(schema, dict):
        held = cast(dict[str, Any], schema)
        made = {
            key: cleaned(value)
            if key in ("title", "description", "$comment") and isinstance(value, str)
            else _with_clean_words(value)
            for key, value in held.items()
        }
        return held if made == held else made
    if isinstance(schema, list):
        return [_with_clean_words(value) for value in cast(list[Any], schema)]
    return schema


# -- patterns of strangers, matched without backtracking -----------------------------------------------------------


@lru_cache(256)
def _matcher(pattern: str) -> SchemaValidator | None:
    """What finds a pattern in time that is proportional to the text; None for one that needs more than that."""
    try:
        return SchemaValidator(core.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except PatternError:
        return None


def _pattern(checker: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    matcher = _matcher(pattern) if isinstance(instance, str) else None
    if matcher is not None and not matcher.isinstance_python(instance):
        yield ValidationError(f"{instance!r:.100} does not match {pattern!r}")


def _pattern_properties(checker: Any, patterns: dict[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        matcher = _matcher(pattern)
        for key, value in cast(dict[str, Any], instance).items():
            if matcher is not None and matcher.isinstance_python(key):
                yield from checker.descend(value, subschema, path=key, schema_path=pattern)


_Bounded: Any = _validators.extend(_Checker, {"pattern": _pattern, "patternProperties": _pattern_properties})
