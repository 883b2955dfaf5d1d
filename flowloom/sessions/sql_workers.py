"""Sessions that workers of a fleet have: for as long as the worker is heard of, which one beat tells for all of them.

The row of a session names its worker; the row of the worker says when it was heard of last, and for how many seconds
that counts (`patience`). A worker that is known to have ended counts no more.
"""

from __future__ import annotations

import time

from flowloom.sessions.leases import Key, uptime
from flowloom.sessions.sql_holders import is_gone
from flowloom.sql import Connection, Dialect

CLOCK = "extract(epoch FROM clock_timestamp())::float8"
"""The time of a PostgreSQL server, in seconds since the epoch."""
_WHERE = "app_name = ? AND user_id = ? AND session_id = ?"


def now(connection: Connection, dialect: Dialect) -> float:
    """The time that all processes share, in seconds since the epoch."""
    if dialect == "sqlite":
        return time.time()
    return connection.execute(f"SELECT {CLOCK}").fetchone()[0]


def pulse(connection: Connection, dialect: Dialect) -> float:
    """The time by which beats are told: that of the server, or of the one machine that has the file, since it was
    started. Setting a machine's time changes neither."""
    return uptime() if dialect == "sqlite" else now(connection, dialect)


def counts_for(beat: float, patience: float, moment: float) -> float:
    """For how many seconds more a beat counts; 0 for one from before the machine was started anew."""
    return max(beat + patience - moment, 0.0) if beat <= moment + patience else 0.0


def held_for(connection: Connection, dialect: Dialect, key: Key) -> float:
    """For how many seconds more a worker has a session if it is not heard of again; 0 if none has it."""
    row = connection.execute(f"SELECT worker FROM flowloom_sessions WHERE {_WHERE}", key).fetchone()
    return 0.0 if row is None or row[0] is None else _rest(connection, dialect, row[0])


def let_go(connection: Connection, dialect: Dialect, key: Key, worker: str) -> float:
    """Take a session from a worker that is not heard of any more; for how many seconds it still has it otherwise."""
    rest = _rest(connection, dialect, worker)
    if rest <= 0:
        connection.execute(f"UPDATE flowloom_sessions SET worker = NULL WHERE {_WHERE} AND worker = ?", (*key, worker))
    return rest


def _rest(connection: Connection, dialect: Dialect, worker: str) -> float:
    sql = "SELECT beat, patience, holder FROM flowloom_workers WHERE worker = ?"
    row = connection.execute(sql, (worker,)).fetchone()
    if row is None or is_gone(row[2]):  # buried, or ended
        return 0.0
    return counts_for(row[0], row[1], pulse(connection, dialect))


def is_awaited(connection: Connection, dialect: Dialect, key: Key) -> bool:
    """Whether a run that no worker runs has a session, or waits for it."""
    sql = f"SELECT expires, holder FROM flowloom_leases WHERE {_WHERE}"
    rows = connection.execute(sql, key).fetchall()
    return bool(rows) and any(row[0] > now(connection, dialect) and not is_gone(row[1]) for row in rows)


def claim_session(connection: Connection, key: Key, worker: str) -> tuple[int, int] | None:
    """Give a session to a worker: its log, and its epoch, which is raised. None if there is no such session."""
    sql = f"UPDATE flowloom_sessions SET epoch = epoch + 1, worker = ? WHERE {_WHERE} RETURNING log, epoch"
    row = connection.execute(sql, (worker, *key)).fetchone()
    return None if row is None else (row[0], row[1])


def release_session(connection: Connection, key: Key, worker: str, epoch: int) -> None:
    """Take note that a worker has done with a session; one that another has taken over stays as it is."""
    sql = f"UPDATE flowloom_sessions SET worker = NULL WHERE {_WHERE} AND worker = ? AND epoch = ?"
    connection.execute(sql, (*key, worker, epoch))


def take_session(connection: Connection, key: Key, worker: str) -> None:
    """Take a session from a worker that was buried: it appends nothing to it any more."""
    sql = f"UPDATE flowloom_sessions SET epoch = epoch + 1, worker = NULL WHERE {_WHERE} AND worker = ?"
    connection.execute(sql, (*key, worker))
