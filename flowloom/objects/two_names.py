"""Parameters that have a name of google-adk's beside their own."""

from __future__ import annotations

from typing import TypeVar

from flowloom.errors import ConfigurationError

_T = TypeVar("_T")


def one_of(names: tuple[str, str], own: _T | None, other: _T | None) -> _T:
    """What was given, by one of the `names`. Raises `ConfigurationError` if it was given by none, or by both."""
    name, other_name = names
    if own is not None and other is not None:
        raise ConfigurationError(f"`{name}` and `{other_name}` are two names of one thing: give one of them.")
    given = own if own is not None else other
    if given is None:
        raise ConfigurationError(f"`{name}` is needed (`{other_name}`, as google-adk calls it, will do).")
    return given
