"""`RetryPolicy`: when a run that failed goes on (durable design, section 4)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from flowloom.errors import ConfigurationError, ModelError, StorageError


def default_retryable(error: BaseException) -> bool:
    """Whether an `error` may pass: a model that is overloaded or out of reach, a store, a connection, a time-out."""
    if isinstance(error, ModelError):
        return error.retryable
    return isinstance(error, StorageError | ConnectionError | TimeoutError)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a run is tried in all, `attempts`, and how long it waits before it goes on from its log.

    The first wait is `backoff` seconds, or what the model asked for if that is longer; each further one is twice as
    long, up to `max_delay` seconds. Meanwhile the run has no worker. `retry_on` says which errors may pass; it is a
    function of a module, which workers import by its name.

    Raises `ConfigurationError` for numbers below zero or no attempt, and for a function that cannot be imported.
    """

    attempts: int = 3
    backoff: float = 2.0
    max_delay: float = 60.0
    retry_on: Callable[[BaseException], bool] = default_retryable

    def __post_init__(self) -> None:
        seconds = all(isinstance(each, int | float) and each >= 0 for each in (self.backoff, self.max_delay))  # pyright: ignore[reportUnnecessaryIsInstance]
        if type(self.attempts) is not int or self.attempts < 1 or not seconds:
            raise ConfigurationError(
                f"A `RetryPolicy` has at least one attempt and waits for no less than 0 seconds, not {self}."
            )
        where = getattr(self.retry_on, "__module__", ""), getattr(self.retry_on, "__qualname__", "")
        if _found(*where) is not self.retry_on:
            raise ConfigurationError(
                f"`retry_on` is imported by the worker that needs it, and `{where[1] or self.retry_on!r}` of "
                f"`{where[0]}` cannot be. Give a function that stands in a module by itself, no lambda or method."
            )

    def wait(self, failures: int, error: BaseException) -> float | None:
        """The seconds to wait after so many `failures`, the last with `error`; None if the run has failed."""
        if failures >= self.attempts or not self.retry_on(error):
            return None
        asked = getattr(error, "retry_after", None)
        wait = self.backoff * 2.0 ** min(failures - 1, 64)  # which is longer than any run waits
        return min(max(wait, asked or 0.0), self.max_delay)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        said: dict[str, Any] = {"attempts": self.attempts, "backoff": self.backoff, "max_delay": self.max_delay}
        if self.retry_on is not default_retryable:
            said["retry_on"] = f"{self.retry_on.__module__}:{self.retry_on.__qualname__}"
        return said

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> RetryPolicy:
        """What `to_dict` gave (`said`). Raises `ConfigurationError` if `retry_on` is not in this process."""
        values = dict(said)
        name = values.pop("retry_on", None)
        if name is not None:
            module, _, qualname = name.partition(":")
            found = _found(module, qualname)
            if found is None:
                raise ConfigurationError(f"`{name}` is not to be found by this worker, which needs it to try again.")
            values["retry_on"] = found
        return cls(**values)


def _found(module: str, qualname: str) -> Any:
    """The function of that name; None if there is none."""
    try:
        found: Any = sys.modules.get(module) or import_module(module)
    except (ImportError, ValueError):
        return None
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found
