"""What becomes of runs in the registry, on a connection, within a transaction (durable design, sections 5 and 6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from flowloom.durable.admission import Admission, lock_shard
from flowloom.durable.limits import ConcurrencyLimit
from flowloom.durable.records import COLUMNS, OVER, Changed, Outcome, Row, Wish
from flowloom.errors import AlreadyAnsweredError
from flowloom.sessions.sql_workers import claim_session, is_awaited, now, release_session, take_session
from flowloom.sql import Connection, Dialect

STEP = 60.0
"""Seconds of waiting that are worth a step of priority."""
PINNED = "@"
"""What the label begins with that keeps a run at workers of a version."""
_FIND = f"SELECT {COLUMNS} FROM flowloom_runs WHERE run_id = ?"
_CLAIMABLE = (
    f"SELECT {COLUMNS} FROM flowloom_runs WHERE app_name = ? AND labels = ? AND status = 'ready' "
    "ORDER BY rank, seq LIMIT ?"
)
_CLAIM = (
    "UPDATE flowloom_runs SET status = 'running', worker = ?, epoch = ?, attempts = attempts + 1, "
    "started = COALESCE(started, ?), labels = ? WHERE run_id = ?"
)
_OVER_AT = (
    "UPDATE flowloom_runs SET status = ?, outcome = ?, ended = ?, worker = NULL, wish = NULL, message = CASE WHEN ? "
    "THEN message END, answers = NULL, wakes = NULL, awaits = NULL WHERE run_id = ?"
)
"""A run that has failed keeps the message that did not come into the log, for the leg that goes on with it."""
_PAUSED = "UPDATE flowloom_runs SET status = 'paused', worker = NULL, wish = NULL, wakes = NULL, awaits = NULL"
_NEXT_LEG = (
    "UPDATE flowloom_runs SET status = ?, leg = leg + 1, attempts = 0, takeovers = 0, worker = NULL, wish = NULL, "
    "outcome = NULL, ended = NULL, message = ?, answers = NULL, awaits = ?, due = ?, rank = ?, wakes = NULL "
    "WHERE run_id = ?"
)


class Setting(NamedTuple):
    """Where a change is made: the dialect, and the app's limits."""

    dialect: Dialect
    limits: tuple[ConcurrencyLimit, ...] = ()


class Claimed(NamedTuple):
    """A run that a worker was given, and the log and epoch of its session; None if that is not there."""

    row: Row
    held: tuple[int, int] | None


def find(connection: Connection, run_id: str, dialect: Dialect, *, lock: bool = False) -> Row | None:
    """The row of a run; with `lock`, for a change of it."""
    sql = _FIND + " FOR UPDATE" if lock and dialect == "postgres" else _FIND
    row = connection.execute(sql, (run_id,)).fetchone()
    return None if row is None else Row(*row)


def locked(connection: Connection, run_id: str, setting: Setting) -> Row | None:
    """The row of a run, whose shard is locked before it."""
    if setting.dialect == "postgres":
        row = connection.execute("SELECT shard FROM flowloom_runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            return None
        lock_shard(connection, setting.dialect, row[0])
    return find(connection, run_id, setting.dialect, lock=True)


# -- claiming --------------------------------------------------------------------------------------------


def claim(
    connection: Connection,
    setting: Setting,
    app_name: str,
    worker: str,
    labels: Sequence[str],
    most: int,
    pin: str | None = None,
) -> tuple[list[Claimed], bool]:
    """Give a worker the first ready runs whose labels it has; and whether others are to be looked at again soon."""
    found: list[Row] = []
    skip = " FOR UPDATE SKIP LOCKED" if setting.dialect == "postgres" else ""
    for each in labels:
        rows = connection.execute(_CLAIMABLE + skip, (app_name, each, most)).fetchall()
        found.extend(Row(*row) for row in rows)
    if len(labels) > 1:
        found.sort(key=lambda row: (row.rank, row.seq))
    return _claimed(connection, setting, worker, found[:most], pin)


def claim_these(
    connection: Connection,
    setting: Setting,
    app_name: str,
    worker: str,
    labels: Sequence[str],
    run_ids: Sequence[str],
    pin: str | None = None,
) -> tuple[list[Claimed], bool]:
    """The same with the runs that a courier has brought: those that are ready still."""
    sql = f"{_FIND} AND status = 'ready' AND app_name = ?"
    if setting.dialect == "postgres":
        sql += " FOR UPDATE SKIP LOCKED"
    rows = [connection.execute(sql, (run_id, app_name)).fetchone() for run_id in dict.fromkeys(run_ids)]
    found = [Row(*row) for row in rows if row is not None]
    return _claimed(connection, setting, worker, [row for row in found if row.labels in labels], pin)


def _claimed(
    connection: Connection, setting: Setting, worker: str, rows: Sequence[Row], pin: str | None
) -> tuple[list[Claimed], bool]:
    claimed: list[Claimed] = []
    if not rows:
        return claimed, False
    if not is_alive(connection, setting.dialect, worker):  # buried: what it took now would be no worker's to notice
        return claimed, False
    moment = now(connection, setting.dialect)
    for row in rows:
        if is_awaited(connection, setting.dialect, row.key):
            continue
        held = claim_session(connection, row.key, worker)
        labels = row.labels
        if pin is not None and pin not in labels.split(","):
            labels = ",".join(sorted((*filter(None, labels.split(",")), pin)))
        connection.execute(_CLAIM, (worker, None if held is None else held[1], moment, labels, row.run_id))
        taken = row._replace(status="running", worker=worker, attempts=row.attempts + 1, started=row.started or moment)
        claimed.append(Claimed(taken._replace(epoch=None if held is None else held[1]), held))
    return claimed, len(claimed) < len(rows)


def is_alive(connection: Connection, dialect: Dialect, worker: str) -> bool:
    """Whether a worker is in the registry; it stays there then until the transaction ends."""
    lock = " FOR KEY SHARE" if dialect == "postgres" else ""
    sql = f"SELECT 1 FROM flowloom_workers WHERE worker = ?{lock}"
    return connection.execute(sql, (worker,)).fetchone() is not None


def has_ready(connection: Connection, app_name: str, labels: Sequence[str]) -> bool:
    """Whether a worker with these labels would find a ready run."""
    marks = ", ".join("?" * len(labels))
    sql = f"SELECT 1 FROM flowloom_runs WHERE app_name = ? AND labels IN ({marks}) AND status = 'ready' LIMIT 1"
    return connection.execute(sql, (app_name, *labels)).fetchone() is not None


# -- the end of a leg --------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """What became of a leg: the `status` of its run, the runs that are `ready` now, whether some are to be admitted."""

    status: str
    ready: tuple[str, ...] = ()
    woken: bool = False


def finish(connection: Connection, setting: Setting, mine: Row, outcome: Outcome) -> Ended | None:
    """Note how a leg has ended; None if its worker does not have the run any more."""
    row, moment = _still_mine(connection, setting, mine)
    if row is None:
        return None
    return _settled(connection, setting, row, moment, outcome)


def _settled(connection: Connection, setting: Setting, row: Row, moment: float, outcome: Outcome) -> Ended:
    admission = Admission(connection, setting.dialect, setting.limits)
    if outcome.status == "paused" and row.wish not in (None, "pause"):  # it came after the last step
        outcome = replace(outcome, status="cancelled")
    if outcome.status == "paused":
        if row.answers is not None and row.wish is None:  # they came while it ran
            if setting.limits:
                admission.free_places(row)
            ready = _go_on(connection, admission, row, row.answers, moment)
            return Ended("waiting", ready, admission.woken)
        sql = f"{_PAUSED}, outcome = ?, message = ?, answers = NULL WHERE run_id = ?"
        connection.execute(sql, (outcome.dumps(), row.answers, row.run_id))
    else:
        connection.execute(_OVER_AT, (outcome.status, outcome.dumps(), moment, outcome.status == "failed", row.run_id))
    if setting.limits:  # without them it has no places
        admission.free_places(row)
    ready = admission.next_of_session(row.key)
    return Ended(outcome.status, ready, admission.woken)


def _still_mine(connection: Connection, setting: Setting, mine: Row) -> tuple[Row | None, float]:
    """The run of a worker that has done with its session, or None if another one has it; and the time."""
    moment = lock_shard(connection, setting.dialect, mine.shard)
    if mine.epoch is not None and mine.worker is not None:
        release_session(connection, mine.key, mine.worker, mine.epoch)
    row = find(connection, mine.run_id, setting.dialect, lock=True)
    same = row is not None and row.status == "running" and (row.worker, row.epoch) == (mine.worker, mine.epoch)
    return (row if same else None), moment


def hand_back(connection: Connection, setting: Setting, mine: Row) -> Ended | None:
    """Let another worker go on with a run at once; it keeps its place."""
    row, _ = _still_mine(connection, setting, mine)
    if row is None:
        return None
    sql = (
        "UPDATE flowloom_runs SET status = 'ready', worker = NULL, attempts = CASE WHEN attempts > 0 THEN attempts - 1 "
        "ELSE 0 END WHERE run_id = ?"
    )
    connection.execute(sql, (row.run_id,))
    return Ended("ready", (row.run_id,))


def try_again(connection: Connection, setting: Setting, mine: Row, wait: float, outcome: Outcome) -> Ended | None:
    """Let a run that failed wait for some seconds, and go on then; it keeps its session, and no worker. One that is to
    stop is tried no more."""
    row, moment = _still_mine(connection, setting, mine)
    if row is None:
        return None
    if row.wish is not None:
        stopped = replace(outcome, status="paused", error_code=None, error_message=None)
        return _settled(connection, setting, row, moment, stopped)
    sql = (
        "UPDATE flowloom_runs SET status = 'waiting', worker = NULL, wakes = ?, due = ?, outcome = ?, wish = NULL "
        "WHERE run_id = ?"
    )
    connection.execute(sql, (moment + wait, moment + wait, outcome.dumps(), row.run_id))
    return Ended("waiting")


def drop_message(connection: Connection, mine: Row) -> None:
    """The message that a leg begins with is in the log now."""
    sql = "UPDATE flowloom_runs SET message = NULL WHERE run_id = ? AND worker = ? AND status = 'running'"
    connection.execute(sql, (mine.run_id, mine.worker))


# -- what is asked of runs -----------------------------------------------------------------------------------


def cancel(connection: Connection, setting: Setting, run_id: str, wish: Wish) -> Changed | None:
    """End a run that no worker has, or ask the worker that has it. One that is over stays as it is. One that a worker
    has died of is ended by the next one, which closes the calls that are open in the log."""
    row = locked(connection, run_id, setting)
    if row is None or row.status in OVER:
        return None if row is None else Changed(row)
    broken_off = row.status == "ready" and row.takeovers > 0 and row.message is None
    if row.status == "running" or broken_off:
        return _wished(connection, row, wish)
    moment, admission = now(connection, setting.dialect), Admission(connection, setting.dialect, setting.limits)
    outcome = Outcome("cancelled")
    connection.execute(_OVER_AT, ("cancelled", outcome.dumps(), moment, False, run_id))
    admission.free_places(row)
    ready = admission.next_of_session(row.key)
    over = row._replace(status="cancelled", outcome=outcome.dumps(), ended=moment)
    return Changed(over, ready, admission.woken)


def pause(connection: Connection, setting: Setting, run_id: str) -> Changed | None:
    """Keep a run from going on until it is resumed. One that is over stays as it is."""
    row = locked(connection, run_id, setting)
    if row is None or row.status in OVER or row.status == "paused":
        return None if row is None else Changed(row)
    if row.status == "running":
        return _wished(connection, row, "pause")
    admission = Admission(connection, setting.dialect, setting.limits)
    connection.execute(f"{_PAUSED} WHERE run_id = ?", (run_id,))
    admission.free_places(row)
    ready = admission.next_of_session(row.key)
    return Changed(row._replace(status="paused"), ready, admission.woken)


def _wished(connection: Connection, row: Row, wish: Wish) -> Changed:
    if row.wish != "cancel" and (wish != "pause" or row.wish is None):  # what is to end is not only paused instead
        connection.execute("UPDATE flowloom_runs SET wish = ? WHERE run_id = ?", (wish, row.run_id))
        row = row._replace(wish=wish)
    return Changed(row)


def resume(
    connection: Connection, setting: Setting, run_id: str, states: Sequence[str], message: dict[str, Any] | None = None
) -> Changed | None:
    """Begin the next leg of a run that is in one of these states, with what it has left, and a message; others stay."""
    row = locked(connection, run_id, setting)
    if row is None or row.status not in states:
        return None if row is None else Changed(row)
    moment, admission = now(connection, setting.dialect), Admission(connection, setting.dialect, setting.limits)
    left = row.message if message is None else _joined(row.message, message)
    ready = _go_on(connection, admission, row, left, moment)
    found = find(connection, run_id, setting.dialect)
    assert found is not None
    return Changed(found, ready, admission.woken)


def _go_on(
    connection: Connection, admission: Admission, row: Row, message: str | None, moment: float
) -> tuple[str, ...]:
    """Put a run in line again; it comes before those of its session that were submitted later."""
    rank = moment - row.priority * STEP
    connection.execute(_NEXT_LEG, ("waiting", message, "session", moment, rank, row.run_id))
    again = row._replace(status="waiting", attempts=0, takeovers=0, wakes=None, awaits="session", worker=None)
    return (row.run_id,) if admission.line_up(again) else ()


def answer(connection: Connection, setting: Setting, run_id: str, message: dict[str, Any]) -> Changed | None:
    """Give a run an answer: it goes on with it, at once or when its leg is over."""
    row = locked(connection, run_id, setting)
    if row is None:
        return None
    if row.status == "paused":
        return resume(connection, setting, run_id, ("paused",), message)
    column = "answers" if row.status == "running" else "message"
    sql = f"UPDATE flowloom_runs SET {column} = ? WHERE run_id = ?"
    connection.execute(sql, (_joined(getattr(row, column), message), run_id))
    return Changed(row)


def _joined(known: str | None, message: dict[str, Any]) -> str:
    return json.dumps([*json.loads(known or "[]"), message], ensure_ascii=False)


def without_waiting(row: Row, message: dict[str, Any]) -> dict[str, Any] | None:
    """What of an answer does not wait in the registry already; None for nothing. Raises `AlreadyAnsweredError` if
    another answer to the same waits there."""
    known: dict[str, Any] = {}
    # what a leg has begun with is in its row until the log has it
    for each in (*json.loads(row.message or "[]"), *json.loads(row.answers or "[]")):
        for part in each.get("parts") or ():
            if "functionResponse" in part:
                known[part["functionResponse"]["id"]] = part["functionResponse"].get("response")
    parts: list[Any] = []
    for part in message.get("parts") or ():
        response = part.get("functionResponse")
        if response is None or response.get("id") not in known:
            parts.append(part)
        elif known[response["id"]] != response.get("response"):
            raise AlreadyAnsweredError(
                f"The call `{response['id']}` of run `{row.run_id}` was answered already, and the run is about to go "
                f"on with that. A decision is made once: nothing of the message was stored.",
                call_id=response["id"],
            )
    return {**message, "parts": parts} if parts else None


# -- the dead ----------------------------------------------------------------------------------------------------


def bury(connection: Connection, setting: Setting, worker: str, beat: float) -> tuple[str, ...] | None:
    """Take its runs from a worker that was not heard of since `beat`; they are ready again. None if it lives, or
    another one has buried it."""
    sql = "DELETE FROM flowloom_workers WHERE worker = ? AND beat = ?"
    if connection.execute(sql, (worker, beat)).rowcount < 1:
        return None
    return take_runs(connection, worker)


def take_runs(connection: Connection, worker: str, *, died: bool = True) -> tuple[str, ...]:
    """Make the runs ready again of a worker that is gone: one that has not `died` hands them over, which counts as no
    attempt, and as no take-over."""
    sql = f"SELECT {COLUMNS} FROM flowloom_runs WHERE worker = ? AND status = 'running' ORDER BY rank, seq"
    rows = [Row(*row) for row in connection.execute(sql, (worker,)).fetchall()]
    for row in rows:
        take_session(connection, row.key, worker)
    counts = "takeovers = takeovers + 1" if died else "attempts = attempts - 1"
    sql = (
        f"UPDATE flowloom_runs SET status = 'ready', worker = NULL, {counts} WHERE run_id = ? AND worker = ? AND "
        "status = 'running'"
    )
    taken = [row.run_id for row in rows if connection.execute(sql, (row.run_id, worker)).rowcount]
    connection.execute("DELETE FROM flowloom_slots WHERE worker = ?", (worker,))
    return tuple(taken)
