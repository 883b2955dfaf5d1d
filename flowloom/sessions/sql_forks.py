"""Forks of logs, their initial state, and what is left when a session is deleted; within a transaction."""

from __future__ import annotations

from typing import Any, NamedTuple

import pydantic_core

from flowloom.sessions.codec import decode_value, encode_value
from flowloom.sessions.leases import Key
from flowloom.sessions.service import already_exists, no_such_event, session_not_found
from flowloom.sessions.sql_log import (
    CHAIN,
    HEAD,
    WHERE,
    Head,
    add_session,
    find,
    found,
    made_by,
    segments,
    seq_of,
    write_own,
)
from flowloom.sessions.sql_schema import PLACES
from flowloom.sql import Connection, Dialect


class Forked(NamedTuple):
    """A log, the log that was forked from it, and up to which seq they are one."""

    source: int
    log: int
    upto: int


def initial_state(connection: Connection, key: Key) -> dict[str, Any]:
    """A session's own state before its first event. Raises `SessionNotFoundError`."""
    row = connection.execute(HEAD, key).fetchone()
    if row is None:
        raise session_not_found(*key)
    root = connection.execute(CHAIN, (row[0],)).fetchall()[-1][0]
    return {name: decode_value(value) for name, value in _base(connection, root)}


def _base(connection: Connection, log: int) -> list[tuple[str, str]]:
    return connection.execute("SELECT key, value FROM flowloom_base WHERE log = ?", (log,)).fetchall()


def fork(
    connection: Connection, key: Key, dialect: Dialect, new_id: str, event_id: str | None, made: str
) -> Forked | None:
    """Create a session that shares the log of another up to an event. Work does not depend on the log's length.

    None if an earlier attempt of the write `made` has done so. Raises `AlreadyExistsError`.
    """
    new_key = (*key[:2], new_id)
    if made_by(connection, new_key, made) is not None:
        return None
    source = found(connection, key, dialect)
    stretches = segments(connection, source)
    seq: int | None = source.last_seq
    if event_id is not None:
        seq = seq_of(connection, stretches, event_id)
        if seq is None:
            raise no_such_event(key[2], event_id)
    shared = next((stretch for stretch in stretches if stretch.after < seq <= stretch.upto), None)
    parent = (source.log, 0) if shared is None else (shared.log, seq)
    if seq == source.last_seq:
        updated = source.updated
        sql = "SELECT key, value FROM flowloom_state WHERE log = ?"
        own: list[tuple[str, str]] = connection.execute(sql, (source.log,)).fetchall()
    else:
        sql = "SELECT timestamp FROM flowloom_events WHERE place = ?"
        updated = connection.execute(sql, (parent[0] * PLACES + seq,)).fetchone()[0]
        own = _state_at(connection, parent[0], seq)
    log = add_session(connection, new_key, Head(0, seq, updated, None), parent, made)
    if log is None:
        raise already_exists(*new_key)
    write_own(connection, log, "base", own)
    write_own(connection, log, "state", own)
    return Forked(source.log, log, seq)


def _state_at(connection: Connection, log: int, seq: int) -> list[tuple[str, str]]:
    """A log's own state after one of its events: what it began with, and the last change of each key since."""
    values = dict(_base(connection, log))
    setters: dict[int, list[str]] = {}
    for (name,) in connection.execute("SELECT key FROM flowloom_state WHERE log = ?", (log,)).fetchall():
        sql = "SELECT max(seq) FROM flowloom_changes WHERE log = ? AND key = ? AND seq <= ?"
        setter = connection.execute(sql, (log, name, seq)).fetchone()[0]
        if setter is not None:
            setters.setdefault(setter, []).append(name)
    for setter, names in setters.items():
        sql = "SELECT event FROM flowloom_events WHERE place = ?"
        text = connection.execute(sql, (log * PLACES + setter,)).fetchone()[0]
        delta = pydantic_core.from_json(text)["actions"]["stateDelta"]
        values.update((name, encode_value(delta[name])) for name in names)
    return list(values.items())


def delete(connection: Connection, key: Key, dialect: Dialect, meant: set[int]) -> None:
    """Delete a session; of its log, what no fork needs.

    `meant` has the log that an earlier attempt of this write has found: a session that was made since stays.
    """
    head = find(connection, key, dialect, lock=True)
    if head is not None and (not meant or head.log in meant):
        meant.add(head.log)
        connection.execute(f"DELETE FROM flowloom_sessions WHERE {WHERE}", key)
        _drop(connection, head.log)


def _drop(connection: Connection, log: int | None) -> None:
    while log is not None:
        sql = "SELECT max(parent_seq) FROM flowloom_logs WHERE parent = ?"
        needed: int | None = connection.execute(sql, (log,)).fetchone()[0]
        connection.execute(
            "DELETE FROM flowloom_events WHERE place > ? AND place < ?",
            (log * PLACES + (needed or 0), (log + 1) * PLACES),
        )
        if needed is not None:
            return
        row = connection.execute("SELECT parent FROM flowloom_logs WHERE log = ?", (log,)).fetchone()
        for table in ("flowloom_state", "flowloom_base", "flowloom_changes", "flowloom_logs"):
            connection.execute(f"DELETE FROM {table} WHERE log = ?", (log,))
        log = row[0] if row is not None else None
        if log is not None:
            used = connection.execute("SELECT 1 FROM flowloom_sessions WHERE log = ?", (log,)).fetchone()
            if used is not None:
                return
