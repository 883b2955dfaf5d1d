"""Timing every processor of a request alone: passes over the whole list, a clock around each call."""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any, Protocol

from google.genai import types

ALL = "all of them"
LEAST_PASSES = 5
NEW_EVENTS = 10
_YARDSTICK_RUNS = 200


class Place(Protocol):
    """An agent with a session, to which requests are built."""

    async def one_pass(self) -> dict[str, int]:
        """A new request through all processors: nanoseconds of each, by name."""
        ...

    async def grow(self) -> None:
        """One more event in the session."""
        ...


def yardstick() -> float:
    """Microseconds that one google-genai content of one text takes to be made: the unit of the curves.

    The machine may be shared, and absolute times mean little; this one is taken in the same process and round. The
    garbage collector rests meanwhile, because it would look at the history that is measured.
    """
    times: list[float] = []
    gc.disable()
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(_YARDSTICK_RUNS):
            types.Content(role="user", parts=[types.Part(text="x")])
        times.append((time.perf_counter() - started) / _YARDSTICK_RUNS * 1e6)
    gc.enable()
    return statistics.median(times)


def clock_cost() -> float:
    """Nanoseconds between two looks at the clock."""
    looks = [(time.perf_counter_ns(), time.perf_counter_ns()) for _ in range(1000)]
    return statistics.median(second - first for first, second in looks)


async def measure(place: Place, seconds: float) -> dict[str, Any]:
    """Median microseconds of each processor, and of all of them.

    `cold` is the first request to the agent in that session, `warm` a request to a session that did not change since
    the one before, `new` one after one more event.
    """
    overhead, before = clock_cost(), yardstick()
    passes: dict[str, list[dict[str, int]]] = {"cold": [await place.one_pass()], "warm": [], "new": []}
    await place.one_pass()
    started = time.perf_counter()
    while len(passes["warm"]) < LEAST_PASSES or time.perf_counter() - started < seconds:
        passes["warm"].append(await place.one_pass())
    for _ in range(NEW_EVENTS):
        await place.grow()
        passes["new"].append(await place.one_pass())
    rows = {
        name: {kind: median_us(found, name, overhead) for kind, found in passes.items()} for name in passes["cold"][0]
    }
    rows[ALL] = {
        kind: statistics.median(sum(one.values()) - overhead * len(one) for one in found) / 1000
        for kind, found in passes.items()
    }
    return {"yardstick": (before + yardstick()) / 2, "rows": rows}


def median_us(passes: list[dict[str, int]], name: str, overhead: float) -> float:
    """What one processor took, without the clock itself."""
    return max(0.0, statistics.median(one[name] for one in passes) - overhead) / 1000
