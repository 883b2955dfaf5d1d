"""What is allowed in a minute, for a whole fleet: in shares that workers hold in memory (durable design, section 8).

A row of `flowloom_rates` says up to when the time of a rate was given away. A call takes some of that time, and no two
calls the same. A worker takes as much at once as its calls need until its next beat, if all workers have as many: its
share, which its calls use without a statement. A rate that is too small for this is taken call by call.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from flowloom.sessions.leases import uptime
from flowloom.sessions.sql_workers import now
from flowloom.sql import Connection, Dialect

MINUTE = 60.0
LONGEST = 2.0
"""Seconds that the shares of all workers last at most, however rarely they beat."""
KEPT = 2 * LONGEST
"""Seconds after which what was not used of a share is lost; those of a minute are so many more, so that none has more
calls than are allowed, though some come late."""
_LOCKS = 1_801_545  # a class of PostgreSQL's advisory locks; any number will do


@dataclass(slots=True)
class _Share:
    """A worker's part of the time of a rate, on its own clock: not used from `begins` on, and not kept longer than
    `kept` seconds."""

    begins: float
    ends: float
    kept: float


class Rate:
    """A rate of so many units (calls, tokens) `per_minute`, and what a worker holds of it; `clock` tells its time."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = uptime) -> None:
        self._shared = per_minute * LONGEST >= MINUTE + KEPT
        self.each = (MINUTE + KEPT if self._shared else MINUTE) / per_minute
        """The seconds of the rate that a unit takes."""
        self._clock = clock
        self._shares: deque[_Share] = deque()

    def share(self, heartbeat: float, workers: int) -> int:
        """The units that one of so many `workers` takes at once; 0 if there is less than one for each beat."""
        if not self._shared:
            return 0
        return int(min(heartbeat, LONGEST) / max(workers, 1) / self.each + 1e-9)

    def add(self, units: int, wait: float, asked: float) -> None:
        """Hold `units`, the first of which is to be used in `wait` seconds from now (below 0: from then on), as was
        `asked` for at that time."""
        moment = self._clock()
        begins = moment + wait  # not before, however long the answer was on its way; and not kept longer for it
        self._shares.append(_Share(begins, begins + units * self.each, max(KEPT - (moment - asked), 0.0)))

    def take(self) -> float | None:
        """Take a unit: the time at which it is to be used; None if none is held."""
        share = self._first()
        if share is None:
            return None
        begins, share.begins = share.begins, share.begins + self.each
        return begins

    def ready(self) -> float | None:
        """When what is held is to be used, without taking of it; None if nothing is held."""
        share = self._first()
        return None if share is None else share.begins

    def spend(self, units: int) -> float:
        """Take units that were used already; the seconds of the rate that are to be had for those that were not
        held."""
        rest = units * self.each
        while rest > 0 and (share := self._first()) is not None:
            part = min(rest, share.ends - share.begins)
            share.begins += part
            rest -= part
        return rest if rest > self.each * 1e-6 else 0.0

    def is_late(self, begins: float) -> bool:
        """Whether a unit is lost that was to be used at that time: the process was stopped meanwhile."""
        return self._clock() - begins > KEPT

    def _first(self) -> _Share | None:
        """The first share with a unit left in it."""
        moment = self._clock()
        while self._shares:
            share = self._shares[0]
            share.begins = max(share.begins, moment - share.kept)
            if share.ends - share.begins >= self.each * (1 - 1e-6):
                return share
            self._shares.popleft()
        return None


def draw(connection: Connection, dialect: Dialect, place: str, seconds: float, saved: float = 0.0) -> float:
    """Give away the next `seconds` of a rate; in how many seconds they begin. Up to `saved` seconds that have gone by
    unused count, too: the result is below 0 then."""
    lock(connection, dialect, place)
    row = connection.execute("SELECT next FROM flowloom_rates WHERE place = ?", (place,)).fetchone()
    moment = now(connection, dialect)
    begins = moment - saved if row is None else max(row[0], moment - saved)
    if seconds:
        sql = (
            "INSERT INTO flowloom_rates (place, next) VALUES (?, ?) "
            "ON CONFLICT (place) DO UPDATE SET next = excluded.next"
        )
        connection.execute(sql, (place, begins + seconds))
    return begins - moment


def lock(connection: Connection, dialect: Dialect, place: str) -> None:
    """Have `place` for the transaction alone."""
    if dialect == "postgres":
        number = zlib.crc32(place.encode()) - (1 << 31)
        connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (_LOCKS, number))
