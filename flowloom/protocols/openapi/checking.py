"""Arguments against the schema of an operation (JSON Schema 2020-12). Whoever imports this loads `jsonschema`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from pydantic_core import SchemaError, SchemaValidator
from pydantic_core import core_schema as core

from flowloom.errors import ToolArgumentsError
from flowloom.extras import missing_extra

try:
    import jsonschema
    from jsonschema import validators
    from referencing import Registry
except ImportError as error:
    raise missing_extra("Arguments of REST APIs are checked by jsonschema", "openapi", error) from error

MAX_PROBLEMS = 20
_jsonschema: Any = jsonschema  # it has no types
_extend: Any = validators.extend  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_NO_DOCUMENTS: Any = Registry()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


class ArgumentChecker:
    """Checks arguments against a `schema` of an object."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._checker: Any = _Checker(schema, registry=_NO_DOCUMENTS)

    def takes_null(self, name: str) -> bool:
        """Whether the argument `name` may be null; one that is not described may not."""
        properties: Mapping[str, Any] = self._schema["properties"]
        if name not in properties:
            return "additionalProperties" in self._schema
        return self._checker.evolve(schema={**properties[name], "$defs": self._schema.get("$defs", {})}).is_valid(None)

    def check(self, args: Mapping[str, Any], tool: str) -> None:
        """Raise `ToolArgumentsError` unless `args` fit; it names each one that does not, of the tool named."""
        try:
            problems: list[Any] = list(islice(self._checker.iter_errors(args), MAX_PROBLEMS))
        except RecursionError:
            problems = [_jsonschema.ValidationError("are nested too deep")]
        if problems:
            told = [f"- {_place(problem)}{problem.message[:300]}" for problem in problems]
            raise ToolArgumentsError("\n".join([f"The arguments of `{tool}` do not fit its parameters:", *told]))


def _place(problem: Any) -> str:
    """Which argument a problem is about; for one that is missing, its message says so."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.absolute_path]
    return f"`{''.join(steps).lstrip('.')}`: " if steps else ""


@lru_cache(1024)
def _matcher(pattern: str) -> SchemaValidator | None:
    """What finds a pattern in time that is proportional to the text; None for one that needs more than that."""
    try:
        return SchemaValidator(core.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


def _pattern(_: Any, pattern: Any, instance: Any, __: Any) -> Iterator[Any]:
    matcher = _matcher(pattern) if isinstance(instance, str) and isinstance(pattern, str) else None
    if matcher is not None and not matcher.isinstance_python(instance):
        yield _jsonschema.ValidationError(f"{instance!r:.100} does not match {pattern!r}")


_Checker: Any = _extend(_jsonschema.Draft202012Validator, {"pattern": _pattern})
