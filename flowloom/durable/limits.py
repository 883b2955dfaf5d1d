"""`ConcurrencyLimit` and `ModelLimit`: what a whole fleet does at once (durable design, section 8)."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from flowloom.durable.records import RunInfo
from flowloom.errors import ConfigurationError

_log = logging.getLogger("flowloom.durable")


@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """How many runs the fleet has ready or running at once, by what they have in common.

    `key`: `user` (each user's runs), `app` (all runs of the app), or a function of a `RunInfo` that gives a text, or
    None for runs that the limit is not about. Runs for which it raises count together, and it is logged. `most`: how
    many, at least one. `name` tells limits apart; by default it is the key, or the function's name. Raises
    `ConfigurationError` for fewer than one, and for another key.
    """

    key: Literal["user", "app"] | Callable[[RunInfo], str | None]
    most: int
    name: str = ""

    def __post_init__(self) -> None:
        if type(self.most) is not int or self.most < 1:
            raise ConfigurationError(f"A `ConcurrencyLimit` lets at least one run go on, not {self.most!r:.60}.")
        if not callable(self.key) and self.key not in ("user", "app"):
            raise ConfigurationError(f"A `ConcurrencyLimit` is by `user`, `app` or a function, not by {self.key!r}.")
        if not self.name:
            name = getattr(self.key, "__qualname__", type(self.key).__name__) if callable(self.key) else self.key
            object.__setattr__(self, "name", name)

    def place_of(self, run: RunInfo) -> str | None:
        """What the run takes a place of; None if the limit is not about it."""
        own = run.user_id if self.key == "user" else ""
        value: object = self._said_of(run, self.key) if callable(self.key) else own
        return None if value is None else "\x1f".join((self.name, run.app_name, str(value)))

    def _said_of(self, run: RunInfo, key: Callable[[RunInfo], object]) -> object:
        """What the function says of a run; an empty text if it raises, which no other run is to wait for."""
        try:
            return key(run)
        except Exception:
            _log.exception("The function of the limit `%s` has failed for run `%s`.", self.name, run.run_id)
            return ""


@dataclass(frozen=True, slots=True)
class ModelLimit:
    """How many calls of a model the fleet makes: `concurrent` at once, `per_minute`, and with how many
    `tokens_per_minute`; None for no limit.

    `model` is the model's name, or a pattern of names as `gemini-*`. A rate is spread over the minute. Workers take it
    in shares, each as much as it may use until its next beat, so that a call writes nothing; no minute has more calls
    than `per_minute`. What a call takes of `tokens_per_minute` is known when it is over, and puts off later ones
    (durable design, section 8). Raises `ConfigurationError` without a limit, and for one below one.
    """

    model: str
    concurrent: int | None = None
    per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.concurrent, self.per_minute, self.tokens_per_minute) if each is not None]
        whole = self.concurrent is None or type(self.concurrent) is int
        if not (given and whole and all(isinstance(each, int | float) and each >= 1 for each in given)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"The `ModelLimit` of `{self.model}` needs `concurrent`, `per_minute` or `tokens_per_minute`, of at "
                f"least 1."
            )

    def is_about(self, model: str) -> bool:
        """Whether a model is limited by this."""
        return fnmatch.fnmatchcase(model, self.model)


Limit = ConcurrencyLimit | ModelLimit


def concurrency_limits(limits: Sequence[Limit]) -> tuple[ConcurrencyLimit, ...]:
    """Those of them that are about runs. Raises `ConfigurationError` for two of one name, and for what is no limit."""
    for each in limits:
        if not isinstance(each, Limit):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`limits` are `ConcurrencyLimit`s and `ModelLimit`s, not {each!r:.60}.")
    found = tuple(each for each in limits if isinstance(each, ConcurrencyLimit))
    if len({each.name for each in found}) < len(found):
        raise ConfigurationError("Two `ConcurrencyLimit`s have the same name. Give one of them another `name`.")
    return found
