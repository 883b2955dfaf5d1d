"""What is wrong with the arguments of a tool call, in words that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_core import ErrorDetails

_NOT_AN_OBJECT = frozenset({"model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type"})


def problem_lines(args: Any, problems: Sequence[ErrorDetails], schema: Mapping[str, Any]) -> list[str]:
    """One line for each place in `args` where something is wrong: the path, what is expected there, and what came.

    `problems` is what pydantic reports; `schema` the JSON schema of the arguments.
    """
    wrong: dict[str, tuple[list[str], str]] = {}
    for problem in problems:
        place = _place(args, problem)
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
        if problem["type"] == "missing":
            expected, came = f"is missing{_parenthesis(_schema_at(schema, place))}", ""
        else:
            expected, came = _expectation(problem), f"; got {_short(problem['input'])}"
        said, _ = wrong.setdefault(path, ([], came))
        if expected not in said:
            said.append(expected)
    lines: list[str] = []
    for path, (said, came) in wrong.items():
        rest = [text.removeprefix("must be ") for text in said[1:]]
        lines.append(f"- `{path or 'arguments'}`: {', or '.join([said[0], *rest])}{came}")
    return lines


def _place(args: Any, problem: ErrorDetails) -> list[str | int]:
    """Where in `args` the problem is. pydantic's location also names union members and validators."""
    place: list[str | int] = []
    steps, node = problem["loc"], args
    for index, step in enumerate(steps):
        if isinstance(node, Mapping) and step in node:
            node = cast(Mapping[Any, Any], node)[step]
        elif isinstance(node, list | tuple) and isinstance(step, int) and step < len(cast(Sequence[Any], node)):
            node = cast(Sequence[Any], node)[step]
        elif problem["type"] != "missing" or index < len(steps) - 1:
            continue
        place.append(step)
    return place


def _expectation(problem: ErrorDetails) -> str:
    if problem["type"] in _NOT_AN_OBJECT:
        return "must be an object"
    if problem["type"] == "extra_forbidden":
        return "is not allowed here"
    message = problem["msg"].partition(", unable to parse")[0]
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return message.replace("Input should be ", "must be ", 1)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else text[:59] + "…"


def _schema_at(schema: Mapping[str, Any], place: Sequence[str | int]) -> Mapping[str, Any]:
    node = schema
    for step in place:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        held: Any = node.get("properties", {}).get(step) if isinstance(step, str) else node.get("items")
        if not isinstance(held, dict):
            return {}
        node = cast(Mapping[str, Any], held)
    return node


def _parenthesis(schema: Mapping[str, Any]) -> str:
    """What a schema asks for, in a few words."""
    if "enum" in schema:
        return f" (one of {', '.join(map(_short, schema['enum']))})"
    kinds = [kind for kind in (choice.get("type") for choice in schema.get("anyOf", [schema])) if kind]
    return f" ({' or '.join(map(str, kinds))})" if kinds else ""
