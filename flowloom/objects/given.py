"""What callers give in the place of something else, refused before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from flowloom.errors import InputValidationError

T = TypeVar("T")


def of_kind(kind: type[T], given: Any, wanted: str) -> T:
    """What is `given`, if it is a `kind`. Else raises `InputValidationError`, which says what is `wanted`."""
    if not isinstance(given, kind):
        raise InputValidationError(f"{wanted} It was given a {type(given).__name__}.")
    return given


def is_several(given: Any) -> bool:
    """Whether `given` can be a list of things, and is not one thing that happens to be iterable."""
    return not isinstance(given, BaseModel | Mapping | str | bytes) and hasattr(given, "__iter__")


def several(given: Iterable[T], wanted: str) -> Iterable[T]:
    """What is `given`, which is not looked into. Raises `InputValidationError` for what is no list."""
    if not is_several(given):
        raise InputValidationError(f"{wanted} It was given a {type(given).__name__}.")
    return given


def events_given(events: Iterable[T], reader: str) -> Iterable[T]:
    """The `events` that a `reader` is given, which are not looked at. Raises `InputValidationError` for a session."""
    return several(
        events, f"`{reader}` reads a list of events: those of a session are its `events`, those of a result too."
    )
