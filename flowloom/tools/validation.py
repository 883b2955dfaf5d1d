"""Data that a model wrote: read again as JSON, or refused in words that the model can act on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pydantic
from pydantic_core import ErrorDetails

from flowloom.errors import ToolArgumentsError
from flowloom.schemas.validator import JsonValidator

MAX_PROBLEMS = 20
"""How many problems one `ToolArgumentsError` spells out."""

_EXPECTATIONS = {"missing": "is missing", "extra_forbidden": "is not allowed here"}


def read_again(
    validator: pydantic.TypeAdapter[Any] | JsonValidator, data: Any, refusal: pydantic.ValidationError, heading: str
) -> Any:
    """`data`, which was refused as Python objects, read as JSON: strict models take a date, say, from there only.

    Raises `ToolArgumentsError`: the heading, and one line for each place where something is wrong.
    """
    try:
        return validator.validate_json(json.dumps(data))
    except pydantic.ValidationError as error:
        refusal = error  # it speaks of arrays and objects, not of Python's types
    except (TypeError, ValueError, RecursionError):
        pass  # not JSON, so there is nothing more to find out
    raise ToolArgumentsError("\n".join([heading, *_problem_lines(data, refusal)])) from refusal


def _problem_lines(data: Any, error: pydantic.ValidationError) -> list[str]:
    """For each place in `data`, up to `MAX_PROBLEMS`: its path, what is expected there, and what came."""
    expected: dict[str, list[str]] = {}
    came: dict[str, Any] = {}
    for problem in error.errors(include_url=False):
        steps = _place(data, problem)
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
        text = _EXPECTATIONS.get(problem["type"]) or problem["msg"].partition(", unable to parse")[0]
        text = text.removeprefix("Value error, ").replace("Input should be ", "must be ", 1)
        texts = expected.setdefault(f"`{path}`: " if path else "", [])
        if text not in texts:  # members of a union may expect the same
            texts.append(text)
        if problem["type"] != "missing":
            came[f"`{path}`: " if path else ""] = problem["input"]
    lines: list[str] = []
    for path, texts in islice(expected.items(), MAX_PROBLEMS):
        got = f"; got {_short(came[path])}" if path in came else ""
        lines.append(f"- {path}{', or '.join(texts).replace(', or must be ', ', or ')}{got}")
    if len(expected) > MAX_PROBLEMS:
        lines.append(f"- and {len(expected) - MAX_PROBLEMS} more")
    return lines


def _place(data: Any, problem: ErrorDetails) -> Iterator[str | int]:
    """The steps to the problem. pydantic's location also names union members and validators."""
    last = len(problem["loc"]) - 1
    for index, step in enumerate(problem["loc"]):
        try:
            data = data[step]
        except (LookupError, TypeError):
            if problem["type"] != "missing" or index < last:
                continue
        yield step


def _short(value: Any) -> str:
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=repr).iterencode(value):  # no more than is shown
        text += piece
        if len(text) > 60:
            return text[:59] + "…"
    return text
