"""`frozen`: a clock that stands still, and ids that count."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count

from flowloom.errors import ConfigurationError
from flowloom.events.clock import set_clock
from flowloom.events.ids import set_source

START = 1_700_000_000.0
"""Where a frozen clock stands if nothing else is said: 14 November 2023, 22:13:20 UTC."""


class FrozenClock:
    """A clock that moves when it is told to, or when somebody sleeps by it. Sleeping takes no time.

    `start` is its first time, in seconds since the epoch.
    """

    def __init__(self, start: float) -> None:
        self.time = start
        """Epoch seconds."""
        self.slept: list[float] = []
        """How long those slept who waited by this clock: retries, delayed answers."""

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Let so many `seconds` go by."""
        self.time += seconds

    async def sleep(self, seconds: float) -> None:
        """Let so many `seconds` go by at once, and note them in `slept`."""
        self.slept.append(seconds)
        self.time += seconds


@contextmanager
def frozen(
    clock: float | datetime.datetime = START, ids: str | Callable[[], str] = "id{}"
) -> Generator[FrozenClock, None, None]:
    """Let time stand still at `clock`, and make ids by `ids`: a pattern (`{}` takes 1, 2, ...) or a function.

    `clock` is in seconds since the epoch, or a datetime.

    It holds for the whole process, in all threads, for everything that flowloom takes a time or an id for: events,
    calls, sessions, limits, retries, delays of scripted models. `asyncio`'s own timeouts go by the machine's clock.
    Yields the clock. Raises `ConfigurationError` for a pattern without a place for the number, or a datetime without
    a time zone.
    """
    if isinstance(clock, datetime.datetime):
        if clock.tzinfo is None:
            raise ConfigurationError(f"{clock!r} has no time zone, so its moment is not known. Add `tzinfo=UTC`.")
        clock = clock.timestamp()
    if isinstance(ids, str):
        if "{}" not in ids:
            raise ConfigurationError(f"The pattern {ids!r} makes the same id each time. Put `{{}}` into it.")
        source: Callable[[], str] = _Counted(ids, count(1))
    else:
        source = ids
    frozen_clock = FrozenClock(clock)
    clock_before, source_before = set_clock(frozen_clock), set_source(source)
    try:
        yield frozen_clock
    finally:
        set_clock(clock_before)
        set_source(source_before)


class _Counted:
    def __init__(self, pattern: str, numbers: Iterator[int]) -> None:
        self._pattern = pattern
        self._numbers = numbers

    def __call__(self) -> str:
        return self._pattern.replace("{}", str(next(self._numbers)))
