"""Which runs are ready, decided when a run is submitted and when one ends (durable design, sections 2 and 8).

Within a transaction that has locked the user's shard. Of a session one run at a time is ready or running, in the order
of submission; one that is tried again keeps its session. Each limit has as many places as it says; who frees one wakes
those that wait for it, and one of them that does not take it wakes the next. Workers look at runs that were woken.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from flowloom.durable.limits import ConcurrencyLimit
from flowloom.durable.records import COLUMNS, Row, RunInfo
from flowloom.sessions.leases import Key
from flowloom.sessions.sql_workers import CLOCK, now
from flowloom.sql import Connection, Dialect

SHARDS = {"sqlite": 1, "postgres": 16}
_SHARD_LOCKS, _PLACE_LOCKS = 1_801_543, 1_801_544  # classes of PostgreSQL's advisory locks; any numbers will do
_SESSION = "app_name = ? AND user_id = ? AND session_id = ?"
_OF_SESSION = f"FROM flowloom_runs WHERE {_SESSION} AND status"
_IN_LINE = f"{_OF_SESSION} = 'waiting' AND attempts = 0 AND (wakes IS NULL OR wakes < 0) ORDER BY seq LIMIT 1"
_FIRST = f"SELECT {COLUMNS} {_IN_LINE}"
_LINE = (
    f"SELECT (SELECT 1 {_OF_SESSION} IN ('ready', 'running') LIMIT 1), "
    f"(SELECT run_id {_OF_SESSION} = 'waiting' AND attempts > 0 LIMIT 1), (SELECT seq {_IN_LINE})"
)
"""What a run of a session may have to wait for: one that is active, one that keeps the session, the first in line."""
_READY = "UPDATE flowloom_runs SET status = 'ready', wakes = NULL, awaits = NULL WHERE run_id = ?"
_WAITS = "UPDATE flowloom_runs SET wakes = NULL, awaits = ? WHERE run_id = ?"
_WOKEN = 1e11  # more seconds than a rank has: below zero, runs that were woken are looked at in the order of ranks
WAKE = f"UPDATE flowloom_runs SET wakes = rank - {_WOKEN} WHERE status = 'waiting'"
"""Wakes runs: a worker is to admit them as soon as it can. They keep their place in their sessions."""
_WAKE_SOME = (
    f"{WAKE} AND run_id IN (SELECT run_id FROM flowloom_runs WHERE status = 'waiting' AND awaits = ? AND "
    "awaits <> 'session' AND wakes IS NULL ORDER BY rank, seq LIMIT ?)"
)
_AWAKE_AT_ONCE = 4  # of those that wait for one place: the first may wait for something else, too


def shard_of(user_id: str, dialect: Dialect) -> int:
    """The shard of a user: what is admitted in one is admitted one after the other."""
    return zlib.crc32(user_id.encode("utf-8", "surrogatepass")) % SHARDS[dialect]


def lock_shard(connection: Connection, dialect: Dialect, shard: int) -> float:
    """Keep others from admitting runs of a shard until the transaction ends; the time (see `now`)."""
    if dialect == "sqlite":
        return now(connection, dialect)
    sql = f"SELECT pg_advisory_xact_lock(?, ?), {CLOCK}"
    return connection.execute(sql, (_SHARD_LOCKS, shard)).fetchone()[1]


def woken(rank: float) -> float:
    """When a run of this `rank` is to be looked at that was woken (see `WAKE`)."""
    return rank - _WOKEN


class Admission:
    """Admits runs on a connection; `limits` are those of the app, as far as they are known here.

    `woken` tells whether there are runs that a worker is to admit as soon as it can.
    """

    def __init__(self, connection: Connection, dialect: Dialect, limits: Sequence[ConcurrencyLimit]) -> None:
        self._connection = connection
        self._dialect: Dialect = dialect
        self._limits = limits
        self.woken = False

    def is_left_to_workers(self, app_name: str) -> bool:
        """Whether the app has limits that are not known here, as clients need not know them."""
        if self._limits:
            return False
        sql = "SELECT 1 FROM flowloom_limits WHERE app_name = ? LIMIT 1"
        return self._connection.execute(sql, (app_name,)).fetchone() is not None

    def held_up_by(self, row: Row) -> str | None:
        """What a run waits for whose time has come; None if it may go on. Then it has its places."""
        active, kept, first = self._connection.execute(_LINE, row.key * 3).fetchone()
        if active is not None:
            return "session"
        if kept is not None:
            return None if kept == row.run_id else "session"
        if first is not None and first < row.seq:
            return "session"
        return self._take_places(row)

    def _take_places(self, row: Row) -> str | None:
        if not self._limits:
            return None
        info = RunInfo.of(row)
        wanted = [(place, each.most) for each in self._limits if (place := each.place_of(info)) is not None]
        run = self._connection.execute
        free: list[tuple[str, int]] = []
        for place, most in sorted(wanted):
            self._lock(place)
            rows = run("SELECT number, run_id FROM flowloom_slots WHERE place = ?", (place,)).fetchall()
            if any(each[1] == row.run_id for each in rows):
                continue
            taken = {each[0] for each in rows}
            number = next((each for each in range(most) if each not in taken), None)
            if number is None or len(taken) >= most:
                return place
            free.append((place, number))
        for place, number in free:
            run("INSERT INTO flowloom_slots (place, number, run_id) VALUES (?, ?, ?)", (place, number, row.run_id))
        return None

    def admit(self, row: Row) -> bool:
        """Make a waiting run ready if it may be; otherwise note what it waits for."""
        held_up = self.held_up_by(row)
        if held_up is None:
            self._connection.execute(_READY, (row.run_id,))
        else:
            self._connection.execute(_WAITS, (held_up, row.run_id))
            if held_up != row.awaits:
                self._pass_on(row)
        return held_up is None

    def line_up(self, row: Row) -> bool:
        """The same, or wake the run if what it may have to wait for is not known here."""
        if not self.is_left_to_workers(row.app_name):
            return self.admit(row)
        self._connection.execute(f"{WAKE} AND run_id = ?", (row.run_id,))
        self.woken = True
        return False

    def next_of_session(self, key: Key) -> tuple[str, ...]:
        """The run of a session that is ready now that another one is over, or is out of its way."""
        row = self._connection.execute(_FIRST, key).fetchone()
        if row is None:
            return ()
        first = Row(*row)
        if first.awaits not in (None, "session"):  # it waits for a place, and is woken when there is one
            return ()
        return (first.run_id,) if self.line_up(first) else ()

    def free_places(self, row: Row) -> None:
        """Give back the places of a run that is over, or waits for a person: others wake that wait for them."""
        sql = "DELETE FROM flowloom_slots WHERE run_id = ? AND worker IS NULL RETURNING place"
        for (place,) in sorted(self._connection.execute(sql, (row.run_id,)).fetchall()):
            self._wake(place)
        self._pass_on(row)

    def _pass_on(self, row: Row) -> None:
        """Wake others for the place that a run was woken for, and does not take."""
        if row.wakes is not None and row.wakes < 0 and row.awaits not in (None, "session"):
            self._wake(row.awaits)

    def _wake(self, place: str) -> None:
        self._lock(place)  # who is about to wait for it is seen
        self.woken |= self._connection.execute(_WAKE_SOME, (place, _AWAKE_AT_ONCE)).rowcount > 0

    def _lock(self, place: str) -> None:
        if self._dialect == "postgres":
            number = zlib.crc32(place.encode()) - (1 << 31)
            self._connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (_PLACE_LOCKS, number))
