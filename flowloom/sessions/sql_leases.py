"""Leases that several processes share: a line of tickets in the database, the lowest of which has the session.

A process first lines up its own runs, so that one of each process waits in the database. Tickets expire; who has one
renews it. A ticket of a process that is known to be gone counts no more. Traffic of leases is not synced to the disk:
after a crash of the machine, all who held one are gone.

Who takes a session raises the epoch in its row, which every append of a run compares with the one that its lease was
given (`Fence`). So a run that slept past its lease writes nothing more. A ticket that the next run of the same process
keeps, because no other run waits, keeps its epoch too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from flowloom.errors import StorageError
from flowloom.events.ids import new_id
from flowloom.sessions.leases import Fence, Key, LeaseQueue, Place, SessionLease, busy, uptime
from flowloom.sessions.sql_holders import is_gone, this_process
from flowloom.sessions.sql_log import WHERE, Head, find, find_held, is_held, take_over
from flowloom.sessions.sql_workers import held_for, let_go
from flowloom.sql import Connection, Database
from flowloom.sql.database import Job

_log = logging.getLogger("flowloom.sessions")
T = TypeVar("T")
WAITING = 5.0
"""Seconds after which a ticket of a process that waits expires, if it is not heard of."""
_SHORTEST, _LONGEST = 0.004, 0.1  # between two looks at the line
_MOST_LEFT = 1000


class SqlLeases:
    """The leases of one store in this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue = LeaseQueue()
        self._left: dict[Key, _Left] = {}
        self._held: dict[Key, Fence] = {}  # by a worker's beats, and not by a ticket

    def fence_of(self, key: Key) -> Fence | None:
        """The fence of the run of this process that has a session, if one has."""
        return self._held.get(key) or self._queue.fence_of(key)

    def hold(self, key: Key, fence: Fence) -> SessionLease:
        """The lease of a session that the database says to be held already."""
        self._held[key] = fence

        def give_back() -> None:
            fence.over = not fence.lost
            if self._held.get(key) is fence:
                del self._held[key]

        return SessionLease(key[2], give_back, fence)

    async def acquire(
        self, key: Key, *, wait: bool, seconds: float, also: Callable[[Connection, Head | None], T]
    ) -> tuple[SessionLease, T]:
        """The lease of a session (see `BaseSessionService.acquire_lease`), and what `also` gave in the same moment.

        `also` is given the session's row.
        """
        place = await self._queue.enter(key, wait=wait, seconds=seconds)
        fence = Fence(key[2], "", seconds, uptime())
        try:
            left = self._left.pop(key, None)
            if left is not None and (kept := await self._keep(key, left, also, fence)) is not None:
                given = kept[0]
            else:
                # a ticket that could not be given back is there yet
                fence.owner = new_id() if left is None else left.fence.owner
                given = await self._stand_in_line(key, fence, also, wait=wait)
        except BaseException:
            self._give_back(key, fence.owner, place)
            raise
        fence.confirm = partial(self._confirm, key, fence)
        place.fence = fence
        hold = _Hold(key, place, fence, lambda: self._renew(key, fence))
        return SessionLease(key[2], lambda: self._release(hold), fence), given

    async def _keep(
        self, key: Key, left: _Left, also: Callable[[Connection, Head | None], T], fence: Fence
    ) -> tuple[T] | None:
        """What `also` gives, if the ticket of the run before can be kept: not given back yet, and no other waits."""
        database = self._database
        if not left.may_be_kept(fence.seconds) or not database.withdraw(left.giving_back):
            return None
        owner, seen = left.fence.owner, None

        def look(connection: Connection) -> tuple[Head, T] | None:
            head = find_held(connection, key, owner)
            return None if head is None else (head, also(connection, head))

        try:
            seen = (database.glance(look) or (await database.read(look),))[0]
        finally:
            if seen is None:
                self._give_back_ticket(key, owner)
        if seen is None:
            return None
        head, given = seen
        fence.owner, fence.renewed, fence.held = owner, left.fence.renewed, (head.log, head.epoch)
        return (given,)

    async def _stand_in_line(
        self, key: Key, fence: Fence, also: Callable[[Connection, Head | None], T], *, wait: bool
    ) -> T:
        database, pause, last_sign = self._database, _SHORTEST, 0.0
        given: list[T] = []

        def take(connection: Connection) -> tuple[int, float, Ticket | None]:
            ahead, rest, left = _take(connection, database, key, fence, wait)
            if not ahead:
                head, worker = take_over(connection, key)
                if worker is not None:
                    rest = let_go(connection, database.dialect, key, worker)
                    if rest > 0:
                        return 1, rest, left
                    head, _ = take_over(connection, key)
                fence.held = None if head is None else (head.log, head.epoch)
                given[:] = (also(connection, head),)
            return ahead, rest, left

        while True:
            now = uptime()
            if not last_sign or now - last_sign > WAITING / 3:
                ahead, rest, left = await database.write(take, durable=False, lane=("lease", key))
                last_sign = now
                if left is not None:
                    why = "its process has ended" if is_gone(left.holder) else "it was not renewed"
                    _log.warning("The lease of session `%s` was not given back, and is taken over: %s.", key[2], why)
            else:
                ahead, rest = await database.read(lambda c: _look(c, database, key, fence.owner))
                if not ahead:
                    last_sign = 0.0
                    continue
            if not ahead:
                fence.renewed = now
                return given[0]
            if not wait:
                raise busy(key[2], rest)
            await asyncio.sleep(pause * min(ahead, 4) * (0.5 + random.random()))
            pause = min(pause * 1.5, _LONGEST)

    async def _confirm(self, key: Key, fence: Fence) -> None:
        await self._database.write(self._renewal(key, fence), durable=False, lane=("lease", key))
        if fence.lost:
            raise fence.error()

    def _renew(self, key: Key, fence: Fence) -> None:
        self._write(self._renewal(key, fence), key)

    def _renewal(self, key: Key, fence: Fence) -> Callable[[Connection], None]:
        began = uptime()

        def renew(connection: Connection) -> None:
            if _extend(connection, self._database, key, fence):
                fence.renewed = began
            else:
                fence.lose()

        return renew

    def _release(self, hold: _Hold) -> None:
        hold.end()
        fence = hold.fence
        job = self._give_back(hold.key, fence.owner, hold.place)
        if fence.lost:
            return
        fence.over = True
        if job is None:
            return
        if len(self._left) >= _MOST_LEFT:
            self._left = {key: left for key, left in self._left.items() if left.may_be_kept(left.fence.seconds)}
        self._left[hold.key] = _Left(fence, job)

    def _give_back(self, key: Key, owner: str, place: Place) -> Job[Any] | None:
        self._left.pop(key, None)
        job = self._give_back_ticket(key, owner)
        self._queue.leave(key, place)
        return job

    def _give_back_ticket(self, key: Key, owner: str) -> Job[Any] | None:
        sql = f"DELETE FROM flowloom_leases WHERE {WHERE} AND owner = ?"
        return self._write(lambda connection: connection.execute(sql, (*key, owner)), key)

    def _write(self, work: Callable[[Connection], object], key: Key) -> Job[Any] | None:
        with contextlib.suppress(StorageError):  # a closed database: what is there expires
            return self._database.write_buffered(work, durable=False, lane=("lease", key))
        return None


@dataclass(slots=True)
class _Left:
    """The ticket of a run that is over, for as long as the database has not heard of it."""

    fence: Fence
    giving_back: Job[Any]

    def may_be_kept(self, seconds: float) -> bool:
        """Whether the next run may have it, if no other waits: it has to be renewed from time to time."""
        return self.fence.seconds == seconds and uptime() - self.fence.renewed < seconds / 3


class _Hold:
    """Renews a lease while it is held, by the timers of the loop it was taken in."""

    __slots__ = ("__weakref__", "_loop", "_renew", "_timer", "fence", "key", "place")

    def __init__(self, key: Key, place: Place, fence: Fence, renew: Callable[[], None]) -> None:
        self.key = key
        self.place = place
        self.fence = fence
        self._renew = renew
        self._loop = asyncio.get_running_loop()
        self._timer = self._next_tick()

    def tick(self) -> None:
        """Renew, now and later again, unless there is nothing left to renew."""
        if self.fence.lost:
            return
        self._renew()
        self.place.expires = time.monotonic() + self.fence.seconds
        self._timer = self._next_tick()

    def _next_tick(self) -> asyncio.TimerHandle:
        held: weakref.ref[_Hold] = weakref.ref(self)
        return self._loop.call_later(self.fence.seconds / 3, _tick, held)

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


class Ticket(NamedTuple):
    """A place in the line of a session."""

    number: int
    owner: str
    expires: float
    holder: str | None

    def counts(self, now: float) -> bool:
        """Whether the one who has it is still to be heard of."""
        return self.expires > now and not is_gone(self.holder)


def _line(connection: Connection, key: Key) -> list[Ticket]:
    sql = f"SELECT ticket, owner, expires, holder FROM flowloom_leases WHERE {WHERE} ORDER BY ticket"
    return [Ticket(*row) for row in connection.execute(sql, key).fetchall()]


def _take(
    connection: Connection, database: Database, key: Key, fence: Fence, wait: bool
) -> tuple[int, float, Ticket | None]:
    """Take a ticket, or renew the one that there is; how many are ahead, and when the first of them expires.

    And the first ticket, if it does not count any more.
    """
    now, owner, seconds = _clock(connection, database, key), fence.owner, fence.seconds
    line = _line(connection, key)
    alive = [each for each in line if each.owner == owner or each.counts(now)]
    left = line[0] if line and line[0] not in alive else None
    if len(alive) < len(line):
        sql = f"DELETE FROM flowloom_leases WHERE {WHERE} AND ticket = ?"
        connection.executemany(sql, [(*key, each.number) for each in line if each not in alive])
    ahead = next((place for place, each in enumerate(alive) if each.owner == owner), None)
    if ahead is None and alive and not wait:
        return len(alive), alive[0].expires - now, left
    expires = now + (WAITING if ahead or (ahead is None and alive) else seconds)
    if ahead is None:
        ahead = len(alive)
        sql = (
            "INSERT INTO flowloom_leases (app_name, user_id, session_id, ticket, owner, expires, holder) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        connection.execute(sql, (*key, alive[-1].number + 1 if alive else 1, owner, expires, this_process()))
    else:
        sql = f"UPDATE flowloom_leases SET expires = ? WHERE {WHERE} AND owner = ?"
        connection.execute(sql, (expires, *key, owner))
    return ahead, alive[0].expires - now if alive else seconds, left


def _look(connection: Connection, database: Database, key: Key, owner: str) -> tuple[int, float]:
    """How many are ahead, without a change; 0 too if the ticket has expired, so that another is taken."""
    if database.dialect == "sqlite":
        now = time.time()
    else:
        now = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0]
    alive = [each for each in _line(connection, key) if each.owner == owner or each.counts(now)]
    ahead = next((place for place, each in enumerate(alive) if each.owner == owner), 0)
    if not ahead and alive and (rest := held_for(connection, database.dialect, key)) > 0:
        return 1, rest
    return ahead, alive[0].expires - now if alive else 0.0


def _extend(connection: Connection, database: Database, key: Key, fence: Fence) -> bool:
    """Renew a ticket, or take it anew if the database has lost it; whether the session is still held."""
    _clock(connection, database, key)
    if not is_held(connection, key, find(connection, key, database.dialect, lock=False), fence):
        return False
    return not _take(connection, database, key, fence, False)[0]
