"""The time, as the engine takes it: the machine's, unless a test has put another clock in its place."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Another clock than the machine's."""

    def now(self) -> float:
        """The time, in epoch seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


_clock: Clock | None = None


def now() -> float:
    """The time, in epoch seconds, to the microsecond: that is what is stored."""
    return time.time_ns() // 1000 / 1e6 if _clock is None else _clock.now()


def monotonic() -> float:
    """Seconds that only grow, to measure how long something takes."""
    return time.monotonic() if _clock is None else _clock.now()


async def sleep(seconds: float) -> None:
    """Wait."""
    await (asyncio.sleep(seconds) if _clock is None else _clock.sleep(seconds))


def set_clock(clock: Clock | None) -> Clock | None:
    """Put a clock in the machine's place, or None to have that back; returns the one before."""
    global _clock
    before, _clock = _clock, clock
    return before
