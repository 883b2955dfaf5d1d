"""Workers in the registry, on a connection, within a transaction (durable design, section 5)."""

from __future__ import annotations

from typing import NamedTuple

from flowloom.durable.admission import WAKE
from flowloom.durable.limits import ConcurrencyLimit
from flowloom.durable.records import WORKER_COLUMNS, WorkerRow
from flowloom.durable.sql_runs import Setting
from flowloom.sessions.sql_holders import is_gone
from flowloom.sessions.sql_workers import counts_for, now, pulse
from flowloom.sql import Connection

_ADD = (
    f"INSERT INTO flowloom_workers ({WORKER_COLUMNS}) VALUES ({', '.join('?' * len(WorkerRow._fields))}) "
    "ON CONFLICT (worker) DO NOTHING"
)

_FREE_FORSAKEN = (
    "DELETE FROM flowloom_slots WHERE worker IS NULL AND run_id NOT IN (SELECT run_id FROM flowloom_runs WHERE status "
    "IN ('waiting', 'ready', 'running'))"
)
"""Frees the places of runs that ended where the limits were not known."""


class Heard(NamedTuple):
    """What a beat tells its worker: `wishes` by run, the `runs` that the registry says it has, each with its epoch,
    the workers that are `dead`, each with its last beat, and its address if it has ended, and how many `workers` live.
    """

    wishes: dict[str, str]
    runs: dict[str, int | None]
    dead: list[tuple[str, float, str | None]]
    workers: int


def register(connection: Connection, setting: Setting, row: WorkerRow, limits: tuple[ConcurrencyLimit, ...]) -> None:
    """Put a worker into the registry, and what its app is limited by."""
    moment = now(connection, setting.dialect)
    connection.execute(_ADD, row._replace(beat=pulse(connection, setting.dialect), started=moment))
    known = connection.execute(
        "SELECT name, key, most FROM flowloom_limits WHERE app_name = ? ORDER BY name", (row.app_name,)
    ).fetchall()
    wanted = sorted((each.name, None if callable(each.key) else each.key, each.most) for each in limits)
    if [tuple(each) for each in known] != wanted:
        connection.execute("DELETE FROM flowloom_limits WHERE app_name = ?", (row.app_name,))
        for name, key, most in wanted:
            sql = "INSERT INTO flowloom_limits (app_name, name, key, most) VALUES (?, ?, ?, ?)"
            connection.execute(sql, (row.app_name, name, key, most))
        connection.execute(_FREE_FORSAKEN)
        sql = f"{WAKE} AND app_name = ? AND wakes IS NULL AND awaits <> 'session'"
        connection.execute(sql, (row.app_name,))


def beat(connection: Connection, setting: Setting, row: WorkerRow, *, waited: float | None) -> Heard | None:
    """Tell the registry that a worker lives, and hear what is new; None if it was buried.

    If the beat has `waited` for the database (None for a worker that is no judge of others), also those that are dead
    by the clock of beats: without that time, in which they could not beat either. What has ended on this machine counts
    at once.
    """
    moment = pulse(connection, setting.dialect)
    sql = "UPDATE flowloom_workers SET beat = ?, running = ?, draining = ? WHERE worker = ?"
    if connection.execute(sql, (moment, row.running, row.draining, row.worker)).rowcount < 1:
        return None
    sql = "SELECT run_id, epoch, wish FROM flowloom_runs WHERE worker = ? AND status = 'running'"
    rows = connection.execute(sql, (row.worker,)).fetchall()
    sql = "SELECT worker, beat, patience, holder, address FROM flowloom_workers WHERE worker <> ?"
    others = connection.execute(sql, (row.worker,)).fetchall()
    gone = [each for each in others if is_gone(each[3]) or _is_silent(each[1], each[2], moment, waited)]
    dead = [(each[0], each[1], each[4] if is_gone(each[3]) else None) for each in gone]
    wishes = {each[0]: each[2] for each in rows if each[2] is not None}
    return Heard(wishes, {each[0]: each[1] for each in rows}, dead, 1 + len(others) - len(dead))


def _is_silent(beat: float, patience: float, moment: float, waited: float | None) -> bool:
    return waited is not None and not counts_for(beat, patience + waited, moment)


def workers(connection: Connection, setting: Setting, app_name: str | None) -> tuple[list[WorkerRow], float]:
    """The workers of an app, or all; and the time by which their beats are told."""
    where, values = ("", ()) if app_name is None else (" WHERE app_name = ?", (app_name,))
    sql = f"SELECT {WORKER_COLUMNS} FROM flowloom_workers{where} ORDER BY started, worker"
    rows = connection.execute(sql, values).fetchall()
    return [WorkerRow(*row) for row in rows], pulse(connection, setting.dialect)


def leave(connection: Connection, worker: str) -> None:
    """Take out a worker that has no runs any more."""
    connection.execute("DELETE FROM flowloom_workers WHERE worker = ?", (worker,))


def epoch_of(connection: Connection, key: tuple[str, str, str]) -> tuple[int, int] | None:
    """The log and the epoch of a session; None if it is not there."""
    sql = "SELECT log, epoch FROM flowloom_sessions WHERE app_name = ? AND user_id = ? AND session_id = ?"
    row = connection.execute(sql, key).fetchone()
    return None if row is None else (row[0], row[1])
