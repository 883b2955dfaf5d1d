"""`Misfit`: a value that does not fit its place on the wire, and where that is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


class Misfit(ValueError):
    """A value that does not fit its place. `place` says where, and grows from the inside out."""

    def __init__(self, problem: str, *steps: str | int) -> None:
        super().__init__(problem)
        self.problem = problem
        self._steps = [*reversed(steps)]

    def within(self, *steps: str | int) -> Misfit:
        """The same, seen from further out."""
        self._steps += reversed(steps)
        return self

    @property
    def place(self) -> str:
        """Such as `contents[2].parts[0].text`."""
        return place_of(reversed(self._steps))

    def __str__(self) -> str:
        place = self.place
        return f"`{place}`: {self.problem}" if place else self.problem


def misfit_of(error: Misfit | RecursionError) -> Misfit:
    """The error for what a conversion raised: data in data in data has no end for Python."""
    return error if isinstance(error, Misfit) else Misfit("it is nested too deeply")


def place_of(steps: Iterable[str | int]) -> str:
    """Keys and indices as one path."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def kind_of(value: Any) -> str:
    """What a JSON value is, for error texts."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list | tuple):
        return "an array"
    return "an object" if isinstance(value, Mapping) else f"a `{type(value).__name__}`"


def unexpected(expected: str, value: Any) -> Misfit:
    """The error for a value of another kind."""
    return Misfit(f"{expected} is expected, not {kind_of(value)}")


def json_object(data: Mapping[str, Any] | str | bytes) -> Mapping[str, Any]:
    """A JSON object, of its text if need be. Raises `Misfit`."""
    if isinstance(data, str | bytes):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Misfit(f"it cannot be read as JSON ({error})") from None
    if not isinstance(data, Mapping):
        raise unexpected("an object", data)
    return data
