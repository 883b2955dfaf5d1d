"""The tables of SQL session stores.

A session has a log, named by a number that is never used again. An event's `place` is `log * 2**32 + seq`, so that a
log lies together and is read in order; `seq` runs from 1 without gaps. A fork's log starts after the `parent_seq` of
its parent's and shares what is before, in the parent's rows; a log without session stays as long as forks need it.

A log's `made` is the id of the write that made it, by which a write that is repeated knows its own. A session's
`epoch` counts those who took it over (see `sql_leases`), its `worker` is the one of a fleet that has it for as long as
that is heard of (see `sql_workers`); a lease's `holder` says which process has it, if known.

Of the state, `flowloom_state` has the current values of a session, `flowloom_base` those that its log began with,
`flowloom_changes` which event set which key, and `flowloom_shared_state` what belongs to a user, or with an empty
`user_id` to an app.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowloom.sql import Schema

PLACES = 1 << 32
"""How many places a log has."""


def _first(integer: str, number: str, key: str, tail: str) -> Sequence[str]:
    return (
        f"CREATE TABLE flowloom_logs (log {key}, parent {integer}, parent_seq {integer})",
        "CREATE INDEX flowloom_logs_parent ON flowloom_logs (parent, parent_seq)",
        f"""CREATE TABLE flowloom_sessions (
            app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
            log {integer} NOT NULL, last_seq {integer} NOT NULL, updated {number} NOT NULL,
            PRIMARY KEY (app_name, user_id, session_id)){tail}""",
        "CREATE UNIQUE INDEX flowloom_sessions_log ON flowloom_sessions (log)",
        f"""CREATE TABLE flowloom_events (
            place {integer} PRIMARY KEY, log {integer} NOT NULL, id TEXT NOT NULL, timestamp {number} NOT NULL,
            event TEXT NOT NULL)""",
        "CREATE UNIQUE INDEX flowloom_events_id ON flowloom_events (log, id)",
        "CREATE INDEX flowloom_events_timestamp ON flowloom_events (log, timestamp)",
        f"""CREATE TABLE flowloom_state (
            log {integer} NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (log, key)){tail}""",
        f"""CREATE TABLE flowloom_base (
            log {integer} NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (log, key)){tail}""",
        f"""CREATE TABLE flowloom_changes (
            log {integer} NOT NULL, key TEXT NOT NULL, seq {integer} NOT NULL, PRIMARY KEY (log, key, seq)){tail}""",
        f"""CREATE TABLE flowloom_shared_state (
            app_name TEXT NOT NULL, user_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
            PRIMARY KEY (app_name, user_id, key)){tail}""",
        f"""CREATE TABLE flowloom_leases (
            app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL, ticket {integer} NOT NULL,
            owner TEXT NOT NULL, expires {number} NOT NULL,
            PRIMARY KEY (app_name, user_id, session_id, ticket)){tail}""",
    )


def _second(integer: str) -> Sequence[str]:
    return (
        "ALTER TABLE flowloom_logs ADD COLUMN made TEXT",
        f"ALTER TABLE flowloom_sessions ADD COLUMN epoch {integer} NOT NULL DEFAULT 0",
        "ALTER TABLE flowloom_leases ADD COLUMN holder TEXT",
    )


_THIRD = ("ALTER TABLE flowloom_sessions ADD COLUMN worker TEXT",)

SESSIONS = Schema(
    "sessions",
    {
        "sqlite": [
            _first("INTEGER", "REAL", "INTEGER PRIMARY KEY AUTOINCREMENT", " WITHOUT ROWID"),
            _second("INTEGER"),
            _THIRD,
        ],
        "postgres": [
            _first("BIGINT", "DOUBLE PRECISION", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", ""),
            _second("BIGINT"),
            _THIRD,
        ],
    },
)
