"""How runs come into the registry, and when their time has come; on a connection, within a transaction."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flowloom.durable.admission import Admission, lock_shard, shard_of, woken
from flowloom.durable.errors import QueueFullError
from flowloom.durable.records import COLUMNS, OVER, Changed, Outcome, Row
from flowloom.durable.sql_runs import STEP, Setting, find, locked
from flowloom.errors import AlreadyExistsError, SessionBusyError
from flowloom.sessions.leases import Key
from flowloom.sessions.service import session_not_found
from flowloom.sessions.sql_log import Head, add_session
from flowloom.sessions.sql_workers import is_awaited, now
from flowloom.sql import Connection

RETRY_AFTER = 5.0
"""Seconds after which another try may find room in the queue."""
EXPIRED = Outcome(
    "cancelled",
    error_code="RunExpiredError",
    error_message="The run had not begun by the time that was set when it was submitted.",
)
_SESSION = "app_name = ? AND user_id = ? AND session_id = ?"
_ADD = (
    f"INSERT INTO flowloom_runs ({', '.join(Row._fields[1:])}) VALUES ({', '.join('?' * len(Row._fields[1:]))}) "
    "RETURNING seq"
)


@dataclass(frozen=True, slots=True)
class Submission:
    """A run as it is submitted: times are seconds, `delay` from now and `at` since the epoch."""

    run_id: str
    key: Key
    message: dict[str, Any] | None
    """None to go on with the invocation of that id, of which the log has the beginning."""
    spec: dict[str, Any]
    priority: int = 0
    delay: float = 0.0
    at: float | None = None
    expires: float | None = None
    labels: tuple[str, ...] = ()
    makes_session: bool = True
    max_waiting: int | None = None
    max_waiting_of_user: int | None = None
    max_of_session: int | None = None
    """How many runs of the session there may be that are not over and wait for no person, with this one."""


def submit(connection: Connection, setting: Setting, given: Submission) -> Changed:
    """Put a run into the registry, unless it is there. Raises `QueueFullError`, `SessionNotFoundError`,
    `AlreadyExistsError` for an id that is another run's."""
    dialect = setting.dialect
    shard = shard_of(given.key[1], dialect)
    moment = lock_shard(connection, dialect, shard)
    found = find(connection, given.run_id, dialect)
    if found is not None:
        if found.key != given.key:
            raise AlreadyExistsError(f"There is another run `{given.run_id}`, of another session. Give another id.")
        return Changed(found)
    _check_room(connection, given)
    check_session(connection, setting, given.key, given.max_of_session)
    _find_session(connection, given, moment)
    admission, row = Admission(connection, dialect, setting.limits), _row_of(given, shard, moment)
    if row.wakes is None and admission.is_left_to_workers(row.app_name):
        row = row._replace(wakes=woken(row.rank))
    elif row.wakes is None:
        held_up = admission.held_up_by(row)
        row = row._replace(status="ready" if held_up is None else "waiting", awaits=held_up)
    row = row._replace(seq=connection.execute(_ADD, row[1:]).fetchone()[0])
    return Changed(row, (row.run_id,) if row.status == "ready" else (), row.wakes is not None)


def _row_of(given: Submission, shard: int, moment: float) -> Row:
    """The row of a run that waits: for its time if it `wakes`."""
    due = moment + given.delay if given.at is None else given.at
    rank = max(due, moment) - given.priority * STEP
    expires = None if given.expires is None else moment + given.expires
    return Row(
        seq=sys.maxsize,  # the last of its session
        run_id=given.run_id,
        app_name=given.key[0],
        user_id=given.key[1],
        session_id=given.key[2],
        shard=shard,
        status="waiting",
        priority=given.priority,
        due=due,
        rank=rank,
        wakes=due if due > moment else None,
        awaits="session",
        expires=expires,
        labels=",".join(sorted(set(given.labels))),
        leg=1,
        attempts=0,
        takeovers=0,
        worker=None,
        epoch=None,
        wish=None,
        spec=json.dumps(given.spec, ensure_ascii=False),
        message=None if given.message is None else json.dumps([given.message], ensure_ascii=False),
        answers=None,
        created=moment,
        started=None,
        ended=None,
        outcome=None,
    )


def _check_room(connection: Connection, given: Submission) -> None:
    app, user = given.key[:2]
    for most, whose, where, values in (
        (given.max_waiting, f"of app `{app}`", "app_name = ?", (app,)),
        (given.max_waiting_of_user, f"of user `{user}`", "app_name = ? AND user_id = ?", (app, user)),
    ):
        if most is None:
            continue
        sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM flowloom_runs WHERE {where} AND status = 'waiting' LIMIT ?) w"
        ready = f"SELECT COUNT(*) FROM (SELECT 1 FROM flowloom_runs WHERE {where} AND status = 'ready' LIMIT ?) r"
        count = sum(connection.execute(each, (*values, most)).fetchone()[0] for each in (sql, ready))
        if count >= most:
            raise QueueFullError(
                f"{most} runs {whose} wait already, which is as many as may. Nothing was submitted: try again later, "
                f"or have more workers.",
                retry_after=RETRY_AFTER,
            )


def check_session(connection: Connection, setting: Setting, key: Key, most: int | None) -> None:
    """Raise `SessionBusyError` if one run more would be more than `most` of a session; if it is to be the only one,
    also if a `Runner` without the fleet has the session."""
    if most is None:
        return
    sql = f"SELECT COUNT(*) FROM flowloom_runs WHERE {_SESSION} AND status IN ('waiting', 'ready', 'running')"
    busy = connection.execute(sql, key).fetchone()[0] >= most
    if busy or (most == 1 and is_awaited(connection, setting.dialect, key)):
        raise SessionBusyError(
            f"The session `{key[2]}` has a run, and no more may wait for it. Nothing was submitted: try again when "
            f"that is over, or cancel it.",
            session_id=key[2],
            retry_after=1.0,
        )


def ahead(connection: Connection, row: Row) -> int:
    """How many runs come before one that waits: of its session, or of its app if it waits for a worker."""
    if row.status == "ready":
        sql = "SELECT COUNT(*) FROM flowloom_runs WHERE app_name = ? AND status = 'ready' AND (rank, seq) < (?, ?)"
        return connection.execute(sql, (row.app_name, row.rank, row.seq)).fetchone()[0]
    sql = (
        f"SELECT COUNT(*) FROM flowloom_runs WHERE {_SESSION} AND status IN ('waiting', 'ready', 'running') AND seq < ?"
    )
    return connection.execute(sql, (*row.key, row.seq)).fetchone()[0]


def _find_session(connection: Connection, given: Submission, moment: float) -> None:
    sql = f"SELECT 1 FROM flowloom_sessions WHERE {_SESSION}"
    if connection.execute(sql, given.key).fetchone() is None:
        if not given.makes_session:
            raise session_not_found(*given.key)
        add_session(connection, given.key, Head(0, 0, moment, None), None, given.run_id)


# -- runs whose time has come --------------------------------------------------------------------------------


def due_runs(connection: Connection, setting: Setting, app_name: str, most: int) -> tuple[list[str], float | None]:
    """The waiting runs whose time has come, and in how many seconds that of the next one comes."""
    sql = (
        "SELECT run_id, wakes FROM flowloom_runs WHERE app_name = ? AND status = 'waiting' AND wakes IS NOT NULL "
        "ORDER BY wakes LIMIT ?"
    )
    rows = connection.execute(sql, (app_name, most + 1)).fetchall()
    if not rows:
        return [], None
    moment = now(connection, setting.dialect)
    due = [row[0] for row in rows[:most] if row[1] <= moment]
    rest = rows[len(due) :]
    return due, max(rest[0][1] - moment, 0.0) if rest else None


def promote(connection: Connection, setting: Setting, run_id: str) -> tuple[str, ...]:
    """Admit a run whose time has come; those that are ready then."""
    row = locked(connection, run_id, setting)
    moment = now(connection, setting.dialect)
    if row is None or row.status != "waiting" or row.wakes is None or row.wakes > moment:
        return ()
    admission = Admission(connection, setting.dialect, setting.limits)
    if row.expires is not None and row.expires <= moment and row.started is None:
        return expire(connection, setting, row)
    return (run_id,) if admission.admit(row) else ()


def expired(connection: Connection, setting: Setting, app_name: str, most: int) -> list[str]:
    """Runs that have not begun by their time."""
    moment = now(connection, setting.dialect)
    sql = (
        "SELECT run_id FROM flowloom_runs WHERE app_name = ? AND status IN ('waiting', 'ready') AND expires <= ? AND "
        "started IS NULL LIMIT ?"
    )
    return [row[0] for row in connection.execute(sql, (app_name, moment, most)).fetchall()]


def expire_one(connection: Connection, setting: Setting, run_id: str) -> tuple[str, ...]:
    """End a run that has not begun by its time; those that are ready then."""
    row = locked(connection, run_id, setting)
    if row is None or row.status not in ("waiting", "ready") or row.started is not None:
        return ()
    return expire(connection, setting, row)


def expire(connection: Connection, setting: Setting, row: Row) -> tuple[str, ...]:
    """The same for its row."""
    admission = Admission(connection, setting.dialect, setting.limits)
    sql = (
        "UPDATE flowloom_runs SET status = 'cancelled', outcome = ?, ended = ?, message = NULL, wakes = NULL, "
        "awaits = NULL WHERE run_id = ?"
    )
    connection.execute(sql, (EXPIRED.dumps(), now(connection, setting.dialect), row.run_id))
    admission.free_places(row)
    return admission.next_of_session(row.key)


def left_ready(connection: Connection, app_name: str, most: int) -> list[str]:
    """The first ready runs of an app."""
    sql = "SELECT run_id FROM flowloom_runs WHERE app_name = ? AND status = 'ready' ORDER BY labels, rank LIMIT ?"
    return [row[0] for row in connection.execute(sql, (app_name, most)).fetchall()]


def listed(
    connection: Connection,
    app_name: str,
    status: Sequence[str],
    user_id: str | None,
    session_id: str | None,
    since: float | None,
    most: int,
) -> list[Row]:
    """Runs of an app, the latest first."""
    where, values = ["app_name = ?"], [app_name]
    marks: list[Any] = []
    for name, value in (("user_id = ?", user_id), ("session_id = ?", session_id), ("created >= ?", since)):
        if value is not None:
            where.append(name)
            marks.append(value)
    if status:
        where.append(f"status IN ({', '.join('?' * len(status))})")
        marks.extend(status)
    sql = f"SELECT {COLUMNS} FROM flowloom_runs WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?"
    rows = connection.execute(sql, (*values, *marks, most)).fetchall()
    return [Row(*row) for row in rows]


def counts(connection: Connection, app_name: str) -> dict[str, int]:
    """How many runs of an app are not over, by status, but for paused ones; and how many `workers` it has."""
    sql = "SELECT COUNT(*) FROM flowloom_runs WHERE app_name = ? AND status = '{}'"  # each has an index of its own
    found = {
        status: int(connection.execute(sql.format(status), (app_name,)).fetchone()[0])
        for status in ("waiting", "ready", "running")
    }
    sql = "SELECT COUNT(*) FROM flowloom_workers WHERE app_name = ?"
    return {**found, "workers": int(connection.execute(sql, (app_name,)).fetchone()[0])}


def forget_ended(connection: Connection, setting: Setting, seconds: float, most: int) -> int:
    """Drop the rows of runs that ended so long ago, `most` at once; how many went. Their logs stay.

    What makes a row one to drop is said twice: one that is retried meanwhile is looked at again on PostgreSQL, and only
    by what is asked of itself.
    """
    before = now(connection, setting.dialect) - seconds
    states = ", ".join(f"'{each}'" for each in sorted(OVER))
    is_old = f"ended < ? AND status IN ({states})"
    sql = f"DELETE FROM flowloom_runs WHERE seq IN (SELECT seq FROM flowloom_runs WHERE {is_old} LIMIT ?) AND {is_old}"
    return connection.execute(sql, (before, most, before)).rowcount
