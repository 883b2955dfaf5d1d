"""`Flights`: of several who ask the same at once, one asks and the others wait for the answer."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any, Self


class Flight:
    """A question that is on its way, and the task that asks it."""

    __slots__ = ("_landing", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self._landing: Future[str | None] = Future()
        self._landing.set_running_or_notify_cancel()  # no one who waits can cancel it for the others

    async def landing(self) -> str | None:
        """The answer, None if the asker has left before it was there. Raises what the asker met."""
        return await asyncio.wrap_future(self._landing)

    def land(self, outcome: str | Exception | None) -> None:
        """Tell those who wait."""
        if isinstance(outcome, Exception):
            self._landing.set_exception(outcome)
        else:
            self._landing.set_result(outcome)


class Flights:
    """The questions that are on their way, by key, and how many were answered from where.

    Any number of event loops and threads may share them. A copy begins with none.
    """

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def join(self, key: str) -> tuple[Flight, bool]:
        """The flight of a key, and whether it is a new one, which the caller has to end."""
        with self._lock:
            found = self._flights.get(key)
            if found is not None:
                return found, False
            flight = self._flights[key] = Flight()
            return flight, True

    def count(self, *, hit: bool) -> None:
        """Count an answer by where it came from."""
        with self._lock:
            self.hits += hit
            self.misses += not hit

    def end(self, key: str, outcome: str | Exception | None) -> None:
        """End the flight of a key; without an outcome, one of those who wait may ask."""
        with self._lock:
            flight = self._flights.pop(key)
        flight.land(outcome)
