"""The tables of the run registry, beside those of the sessions in the same database (durable design, section 5).

`flowloom_runs` has a row for each run. `spec` says how it is to be run, and how many read it as it runs; `message` is
what its next leg begins with, and leaves the row in the transaction that appends it to the log; `answers` came while
a leg was under way. `wakes` is when a run that waits for its time is to be looked at (below zero: it was woken),
`awaits` what another one waits for (`session`, or a place of a limit), `rank` orders those that are ready: a step of
priority is worth 60 seconds.

`flowloom_slots` has a row for each place of a limit that is taken, by a run or by a model call; `flowloom_rates` says
up to when the time of a rate was given away, to workers in shares and to calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowloom.sql import Schema


def _first(integer: str, number: str, key: str) -> Sequence[str]:
    return (
        f"""CREATE TABLE flowloom_runs (
            seq {key}, run_id TEXT NOT NULL,
            app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL, shard {integer} NOT NULL,
            status TEXT NOT NULL, priority {integer} NOT NULL, due {number} NOT NULL, rank {number} NOT NULL,
            wakes {number}, awaits TEXT, expires {number}, labels TEXT NOT NULL,
            leg {integer} NOT NULL, attempts {integer} NOT NULL, takeovers {integer} NOT NULL,
            worker TEXT, epoch {integer}, wish TEXT, spec TEXT NOT NULL, message TEXT, answers TEXT,
            created {number} NOT NULL, started {number}, ended {number}, outcome TEXT)""",
        "CREATE UNIQUE INDEX flowloom_runs_id ON flowloom_runs (run_id)",
        """CREATE INDEX flowloom_runs_ready ON flowloom_runs (app_name, labels, rank, seq)
            WHERE status = 'ready'""",
        """CREATE INDEX flowloom_runs_active ON flowloom_runs (app_name, user_id, session_id)
            WHERE status IN ('ready', 'running')""",
        """CREATE INDEX flowloom_runs_waiting ON flowloom_runs (app_name, user_id, session_id, attempts, seq)
            WHERE status = 'waiting'""",
        """CREATE INDEX flowloom_runs_timed ON flowloom_runs (app_name, wakes)
            WHERE status = 'waiting' AND wakes IS NOT NULL""",
        """CREATE INDEX flowloom_runs_limited ON flowloom_runs (awaits, rank, seq)
            WHERE status = 'waiting' AND awaits <> 'session'""",
        "CREATE INDEX flowloom_runs_worker ON flowloom_runs (worker) WHERE status = 'running'",
        "CREATE INDEX flowloom_runs_ended ON flowloom_runs (ended) WHERE ended IS NOT NULL",
        "CREATE INDEX flowloom_runs_session ON flowloom_runs (app_name, user_id, session_id, seq)",
        f"""CREATE TABLE flowloom_workers (
            worker TEXT PRIMARY KEY, app_name TEXT NOT NULL, beat {number} NOT NULL, patience {number} NOT NULL,
            holder TEXT, started {number} NOT NULL, version TEXT NOT NULL, labels TEXT NOT NULL,
            capacity {integer} NOT NULL, running {integer} NOT NULL, draining {integer} NOT NULL, address TEXT,
            token TEXT)""",
        f"""CREATE TABLE flowloom_slots (
            place TEXT NOT NULL, number {integer} NOT NULL, run_id TEXT NOT NULL, worker TEXT,
            PRIMARY KEY (place, number))""",
        "CREATE INDEX flowloom_slots_run ON flowloom_slots (run_id)",
        "CREATE INDEX flowloom_slots_worker ON flowloom_slots (worker) WHERE worker IS NOT NULL",
        f"CREATE TABLE flowloom_rates (place TEXT PRIMARY KEY, next {number} NOT NULL)",
        f"""CREATE TABLE flowloom_limits (
            app_name TEXT NOT NULL, name TEXT NOT NULL, key TEXT, most {integer} NOT NULL,
            PRIMARY KEY (app_name, name))""",
        f"""CREATE TABLE flowloom_schedules (
            app_name TEXT NOT NULL, name TEXT NOT NULL, schedule TEXT NOT NULL, next_due {number} NOT NULL,
            last_run TEXT, PRIMARY KEY (app_name, name))""",
        "CREATE INDEX flowloom_schedules_due ON flowloom_schedules (app_name, next_due)",
    )


DURABLE = Schema(
    "durable",
    {
        "sqlite": [_first("INTEGER", "REAL", "INTEGER PRIMARY KEY AUTOINCREMENT")],
        "postgres": [_first("BIGINT", "DOUBLE PRECISION", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY")],
    },
)
