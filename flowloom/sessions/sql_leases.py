"""Leases that several processes share: a line of tickets in the database, the lowest of which has the session.

A process first lines up its own runs, so that one of each process waits in the database. Tickets expire; who has one
renews it. Traffic of leases is not synced to the disk: after a crash of the machine, all who held one are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flowloom.errors import StorageError
from flowloom.events.ids import new_id
from flowloom.sessions.leases import Key, LeaseQueue, Place, SessionLease, busy
from flowloom.sql import Connection, Database
from flowloom.sql.database import Job

T = TypeVar("T")
WAITING = 5.0
"""Seconds after which a ticket of a process that waits expires, if it is not heard of."""
_WHERE = "app_name = ? AND user_id = ? AND session_id = ?"
_SHORTEST, _LONGEST = 0.004, 0.1  # between two looks at the line
_MOST_LEFT = 1000


class SqlLeases:
    """The leases of one store in this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue = LeaseQueue()
        self._left: dict[Key, _Left] = {}

    async def acquire(
        self, key: Key, *, wait: bool, seconds: float, also: Callable[[Connection], T]
    ) -> tuple[SessionLease, T]:
        """The lease of a session (see `BaseSessionService.acquire_lease`), and what `also` gave in the same moment."""
        place = await self._queue.enter(key, wait=wait, seconds=seconds)
        owner = ""
        try:
            left = self._left.pop(key, None)
            if left is not None and (kept := await self._keep(key, left, also, seconds)) is not None:
                owner, taken, given = left.owner, left.taken, kept[0]
            else:
                owner, taken = new_id(), time.monotonic()
                given = await self._stand_in_line(key, owner, also, wait=wait, seconds=seconds)
        except BaseException:
            self._give_back(key, owner, place)
            raise
        hold = _Hold(key, place, seconds, taken, lambda: self._renew(key, owner, seconds))
        return SessionLease(key[2], lambda: self._release(hold, owner)), given

    async def _keep(self, key: Key, left: _Left, also: Callable[[Connection], T], seconds: float) -> tuple[T] | None:
        """What `also` gives, if the ticket of the run before can be kept: not given back yet, and nobody waits."""
        database = self._database
        if not left.may_be_kept(seconds) or not database.withdraw(left.giving_back):
            return None
        kept = False

        def look(connection: Connection) -> tuple[list[tuple[int, str, float]], T]:
            return _line(connection, key), also(connection)

        try:
            seen = database.glance(look) or (await database.read(look),)
            line, given = seen[0]
            kept = len(line) == 1 and line[0][1] == left.owner
        finally:
            if not kept:
                self._give_back_ticket(key, left.owner)
        return (given,) if kept else None

    async def _stand_in_line(
        self, key: Key, owner: str, also: Callable[[Connection], T], *, wait: bool, seconds: float
    ) -> T:
        database, pause, last_sign = self._database, _SHORTEST, 0.0
        given: list[T] = []

        def take(connection: Connection) -> tuple[int, float]:
            ahead, rest = _take(connection, database, key, owner, wait, seconds)
            given[:] = () if ahead else (also(connection),)
            return ahead, rest

        while True:
            now = time.monotonic()
            if not last_sign or now - last_sign > WAITING / 3:
                ahead, rest = await database.write(take, durable=False, lane=("lease", key))
                last_sign = now
            else:
                ahead, rest = await database.read(lambda c: _look(c, database, key, owner))
                if not ahead:
                    last_sign = 0.0
                    continue
            if not ahead:
                return given[0]
            if not wait:
                raise busy(key[2], rest)
            await asyncio.sleep(pause * min(ahead, 4) * (0.5 + random.random()))
            pause = min(pause * 1.5, _LONGEST)

    def _renew(self, key: Key, owner: str, seconds: float) -> None:
        self._soon(lambda connection: _extend(connection, self._database, key, owner, seconds), key)

    def _release(self, hold: _Hold, owner: str) -> None:
        hold.end()
        job = self._give_back(hold.key, owner, hold.place)
        if job is None:
            return
        if len(self._left) >= _MOST_LEFT:
            self._left = {key: left for key, left in self._left.items() if left.may_be_kept(left.seconds)}
        self._left[hold.key] = _Left(owner, hold.taken, hold.seconds, job)

    def _give_back(self, key: Key, owner: str, place: Place) -> Job[Any] | None:
        self._left.pop(key, None)
        job = self._give_back_ticket(key, owner)
        self._queue.leave(key, place)
        return job

    def _give_back_ticket(self, key: Key, owner: str) -> Job[Any] | None:
        sql = f"DELETE FROM flowloom_leases WHERE {_WHERE} AND owner = ?"
        return self._soon(lambda connection: connection.execute(sql, (*key, owner)), key)

    def _soon(self, work: Callable[[Connection], object], key: Key) -> Job[Any] | None:
        with contextlib.suppress(StorageError):  # a closed database: what is there expires
            return self._database.write_soon(work, durable=False, lane=("lease", key))
        return None


@dataclass(slots=True)
class _Left:
    """The ticket of a run that is over, for as long as the database has not heard of it."""

    owner: str
    taken: float
    seconds: float
    giving_back: Job[Any]

    def may_be_kept(self, seconds: float) -> bool:
        """Whether the next run may have it, if nobody waits: it has to be renewed from time to time."""
        return self.seconds == seconds and time.monotonic() - self.taken < seconds / 3


class _Hold:
    """Renews a lease while it is held, by the timers of the loop it was taken in."""

    __slots__ = ("__weakref__", "_loop", "_renew", "_timer", "key", "place", "seconds", "taken")

    def __init__(self, key: Key, place: Place, seconds: float, taken: float, renew: Callable[[], None]) -> None:
        self.key = key
        self.taken = taken
        self.place = place
        self.seconds = seconds
        self._renew = renew
        self._loop = asyncio.get_running_loop()
        self._timer = self._next_tick()

    def tick(self) -> None:
        """Renew, now and later again."""
        self._renew()
        self.place.expires = time.monotonic() + self.seconds
        self._timer = self._next_tick()

    def _next_tick(self) -> asyncio.TimerHandle:
        held: weakref.ref[_Hold] = weakref.ref(self)
        return self._loop.call_later(self.seconds / 3, _tick, held)

    def end(self) -> None:
        """Renew no more."""
        if asyncio._get_running_loop() is self._loop:
            self._timer.cancel()
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._timer.cancel)


def _tick(hold: weakref.ref[_Hold]) -> None:
    held = hold()
    if held is not None:
        held.tick()


# -- on a connection -----------------------------------------------------------------------------------


def _clock(connection: Connection, database: Database, key: Key) -> float:
    """The time that all processes share; on PostgreSQL, the line is then this transaction's."""
    if database.dialect == "sqlite":
        return time.time()
    sql = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0)), extract(epoch FROM clock_timestamp())::float8"
    return connection.execute(sql, ("\x1f".join(key),)).fetchone()[1]


def _line(connection: Connection, key: Key) -> list[tuple[int, str, float]]:
    sql = f"SELECT ticket, owner, expires FROM flowloom_leases WHERE {_WHERE} ORDER BY ticket"
    return connection.execute(sql, key).fetchall()


def _take(
    connection: Connection, database: Database, key: Key, owner: str, wait: bool, seconds: float
) -> tuple[int, float]:
    """Take a ticket, or renew the one that there is; how many are ahead, and when the first of them expires."""
    now = _clock(connection, database, key)
    line = _line(connection, key)
    alive = [each for each in line if each[2] > now or each[1] == owner]
    if len(alive) < len(line):
        sql = f"DELETE FROM flowloom_leases WHERE {_WHERE} AND expires <= ? AND owner <> ?"
        connection.execute(sql, (*key, now, owner))
    ahead = next((place for place, each in enumerate(alive) if each[1] == owner), None)
    if ahead is None and alive and not wait:
        return len(alive), alive[0][2] - now
    expires = now + (WAITING if ahead or (ahead is None and alive) else seconds)
    if ahead is None:
        ahead = len(alive)
        sql = (
            "INSERT INTO flowloom_leases (app_name, user_id, session_id, ticket, owner, expires) "
            "VALUES (?, ?, ?, ?, ?, ?)"
        )
        connection.execute(sql, (*key, alive[-1][0] + 1 if alive else 1, owner, expires))
    else:
        sql = f"UPDATE flowloom_leases SET expires = ? WHERE {_WHERE} AND owner = ?"
        connection.execute(sql, (expires, *key, owner))
    return ahead, alive[0][2] - now if alive else seconds


def _look(connection: Connection, database: Database, key: Key, owner: str) -> tuple[int, float]:
    """How many are ahead, without a change; 0 too if the ticket has expired, so that another is taken."""
    if database.dialect == "sqlite":
        now = time.time()
    else:
        now = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0]
    alive = [each for each in _line(connection, key) if each[2] > now or each[1] == owner]
    ahead = next((place for place, each in enumerate(alive) if each[1] == owner), 0)
    return ahead, alive[0][2] - now if alive else 0.0


def _extend(connection: Connection, database: Database, key: Key, owner: str, seconds: float) -> None:
    now = _clock(connection, database, key)
    sql = f"UPDATE flowloom_leases SET expires = ? WHERE {_WHERE} AND owner = ?"
    connection.execute(sql, (now + seconds, *key, owner))
