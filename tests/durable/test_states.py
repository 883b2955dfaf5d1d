"""The registry alone: whatever is done to runs in whatever order, they stay in the diagram, and none is forgotten."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from flowloom import PostgresSessionService, SqliteSessionService
from flowloom.durable import sql_runs
from flowloom.durable.limits import ConcurrencyLimit
from flowloom.durable.records import OVER, Outcome, Row, WorkerRow
from flowloom.durable.registry import Registry
from flowloom.durable.sql_submit import Submission
from flowloom.sessions.sql_service import SqlSessionService

APP = "app"
MESSAGE: dict[str, Any] = {"role": "user", "parts": [{"text": "Go."}]}
pytestmark = pytest.mark.timeout(3000)  # of 2,000 sequences
NEXT = {
    "waiting": {"ready", "cancelled", "paused"},
    "ready": {"running", "cancelled", "paused"},
    "running": {"final", "failed", "limit", "cancelled", "paused", "ready", "waiting"},
    "paused": {"ready", "waiting", "cancelled"},
    "failed": {"ready", "waiting"},
    "limit": {"ready", "waiting"},
    "final": set(),
    "cancelled": set(),
}
"""From each state, those that one change leads to."""


class Machine(RuleBasedStateMachine):
    """Submits, claims, ends, kills, answers, cancels and resumes runs of a few sessions."""

    limits: tuple[ConcurrencyLimit, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.service = self.open()
        self.registry = Registry(self.service, self.limits)
        self.claimed: list[Row] = []
        self.stale: list[Row] = []
        self.submitted: list[str] = []
        self.known: dict[str, str] = {}
        self.promised: dict[str, str] = {}
        """What was asked of runs that workers have, and is to be done."""
        self.workers = 0
        self.worker = self.new_worker()

    def open(self) -> SqlSessionService:
        return SqliteSessionService(Path(self.folder.name) / "a.db")

    def teardown(self) -> None:
        self.do(self.service.close())
        self.runner.close()
        self.folder.cleanup()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def new_worker(self) -> str:
        self.workers += 1
        name = f"w{self.workers}"
        row = WorkerRow(name, APP, 0, 60, None, 0, "1", "", 4, 0, 0, None, None)
        self.do(self.registry.register(row))
        return name

    def rows(self) -> list[Row]:
        return list(reversed(self.do(self.registry.listed(APP, (), None, None, None, 1000))))

    @rule(user=st.integers(0, 1), session=st.integers(0, 1), priority=st.integers(0, 2), delay=st.sampled_from([0, 60]))
    def submit(self, user: int, session: int, priority: int, delay: float) -> None:
        run_id = f"r{len(self.submitted)}"
        key = (APP, f"u{user}", f"s{session}")
        self.do(self.registry.submit(Submission(run_id, key, MESSAGE, {}, priority, delay)))
        self.submitted.append(run_id)

    @rule(most=st.integers(1, 3))
    def claim(self, most: int) -> None:
        claimed, _ = self.do(self.registry.claim(APP, self.worker, [""], most, None))
        assert len(claimed) <= most
        self.claimed += [each.row for each in claimed]

    @rule(data=st.data())
    def deliver_twice(self, data: st.DataObject) -> None:
        if self.submitted:
            run_id = data.draw(st.sampled_from(self.submitted))
            claimed, _ = self.do(self.registry.claim(APP, self.worker, [""], 2, [run_id, run_id]))
            assert len(claimed) <= 1
            self.claimed += [each.row for each in claimed]

    @rule(data=st.data(), how=st.sampled_from(["final", "failed", "limit", "paused", "cancelled", "back", "again"]))
    def end(self, data: st.DataObject, how: Any) -> None:
        if not self.claimed:
            return
        row = self.claimed.pop(data.draw(st.integers(0, len(self.claimed) - 1)))
        assert self.note(row, how) is not None
        assert self.note(row, how) is None, "a leg has ended twice"

    @rule(data=st.data(), how=st.sampled_from(["final", "paused", "back", "again"]))
    def end_of_a_zombie(self, data: st.DataObject, how: Any) -> None:
        if self.stale:
            assert self.note(data.draw(st.sampled_from(self.stale)), how) is None

    def note(self, row: Row, how: Any) -> Any:
        if how == "back":
            return self.do(self.registry.hand_back(row))
        if how == "again":
            return self.do(self.registry.try_again(row, 0.0, Outcome("failed")))
        return self.do(self.registry.finish(row, Outcome(how)))

    @rule()
    def die(self) -> None:
        (row,) = [each for each in self.do(self.registry.workers(APP))[0] if each.worker == self.worker]
        taken = self.do(self.registry.bury(self.worker, row.beat))
        assert set(taken) == {each.run_id for each in self.claimed}
        assert self.do(self.registry.bury(self.worker, row.beat)) is None
        self.stale += self.claimed
        self.claimed = []
        self.worker = self.new_worker()

    @rule(data=st.data(), what=st.sampled_from(["cancel", "pause", "resume", "retry", "answer"]))
    def ask(self, data: st.DataObject, what: str) -> None:
        if not self.submitted:
            return
        run_id = data.draw(st.sampled_from(self.submitted))
        change = self.registry.change
        if what in ("cancel", "pause"):
            asked = (sql_runs.cancel, run_id, "cancel") if what == "cancel" else (sql_runs.pause, run_id)
            row = self.do(change(*asked)).row
            if row.status in ("ready", "running"):
                self.promised[run_id] = row.wish
        elif what == "answer":
            row = self.do(self.registry.find(run_id))
            if row.status not in OVER:
                self.do(change(sql_runs.answer, run_id, MESSAGE))
        else:
            self.do(change(sql_runs.resume, run_id, ("paused",) if what == "resume" else ("failed", "limit")))

    @rule()
    def time_passes(self) -> None:
        sql = "UPDATE flowloom_runs SET wakes = wakes - 60 WHERE wakes IS NOT NULL"
        self.do(self.registry.write(lambda c: c.execute(sql), "test"))
        self.do(self.registry.promote(APP))

    @invariant()
    def what_was_asked_is_done(self) -> None:
        for row in self.rows():
            wish = self.promised.get(row.run_id)
            if wish is not None and row.status in ("ready", "running"):
                assert row.wish == wish, f"{row.run_id} was to {wish}, which is forgotten"
            elif wish is not None:
                del self.promised[row.run_id]
                assert row.status in OVER or (wish, row.status) == ("pause", "paused"), (row.run_id, wish, row.status)

    @invariant()
    def every_run_is_where_it_may_be(self) -> None:
        rows = self.rows()
        assert [row.run_id for row in rows] == self.submitted
        active: dict[Any, int] = {}
        for row in rows:
            before = self.known.get(row.run_id, "waiting")
            assert row.status == before or row.status in reach(before), (row.run_id, before, row.status)
            self.known[row.run_id] = row.status
            if row.status in ("ready", "running"):
                active[row.key] = active.get(row.key, 0) + 1
            assert (row.worker is not None) == (row.status == "running")
        assert all(count == 1 for count in active.values()), "two runs of a session at once"
        running = {row.run_id for row in rows if row.status == "running"}
        assert running == {row.run_id for row in self.claimed}
        for row in rows:
            if row.status == "waiting" and row.wakes is None:
                held = {r.run_id for r in rows if r.key == row.key and r.run_id != row.run_id and holds(r, row)}
                assert held or self.is_limited(row, rows), f"{row.run_id} is forgotten"

    def is_limited(self, row: Row, rows: list[Row]) -> bool:
        return False


def holds(other: Row, row: Row) -> bool:
    """Whether a run keeps another one of its session from going on."""
    if other.status in ("ready", "running") or (other.status == "waiting" and other.attempts > 0):
        return True
    return other.status == "waiting" and other.wakes is None and other.seq < row.seq


def reach(status: str) -> set[str]:
    """The states that a step of the test may lead to: a change, and what is admitted because of it."""
    found = set(NEXT[status])
    return found | {each for one in found if one in ("waiting", "ready") for each in NEXT[one]}


class LimitedMachine(Machine):
    """The same with a limit for each user."""

    limits = (ConcurrencyLimit("user", 1),)

    def is_limited(self, row: Row, rows: list[Row]) -> bool:
        """Whether another run of the user has the one place; one that was woken is admitted at the next look."""
        return any(
            other.user_id == row.user_id
            and (other.status in ("ready", "running") or (other.status == "waiting" and other.attempts > 0))
            for other in rows
        ) or any(other.key == row.key and other.wakes is not None for other in rows)


class PostgresMachine(LimitedMachine):
    """The same on PostgreSQL."""

    dsn = ""

    def open(self) -> SqlSessionService:
        tables = "runs, workers, slots, rates, limits, schedules, sessions"
        with psycopg.connect(self.dsn) as connection:
            for name in tables.split(", "):
                if connection.execute("SELECT to_regclass(%s)", (f"flowloom_{name}",)).fetchone() != (None,):
                    connection.execute(f"TRUNCATE flowloom_{name} CASCADE".encode())
        return PostgresSessionService(self.dsn, max_connections=1)


OFTEN = settings(
    max_examples=2000 if os.environ.get("FLOWLOOM_LONG") else 5,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestStates = Machine.TestCase
TestStates.settings = OFTEN
TestLimitedStates = LimitedMachine.TestCase
TestLimitedStates.settings = OFTEN


def test_states_on_postgresql(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry is the same there."""
    monkeypatch.setattr(PostgresMachine, "dsn", postgres_dsn)
    run_state_machine_as_test(PostgresMachine, settings=settings(OFTEN, max_examples=OFTEN.max_examples // 2))


async def test_a_run_that_is_to_end_is_not_only_paused(tmp_path: Path) -> None:
    """Who asks for a pause after somebody has cancelled it takes nothing back; a cancel at once counts most."""
    service = SqliteSessionService(tmp_path / "a.db")
    registry = Registry(service)
    await registry.register(WorkerRow("w1", APP, 0, 60, None, 0, "1", "", 4, 0, 0, None, None))
    await registry.submit(Submission("r1", (APP, "u", "s"), MESSAGE, {}))
    await registry.claim(APP, "w1", [""], 1, None)
    asked = [(sql_runs.pause,), (sql_runs.cancel, "cancel_after_step"), (sql_runs.pause,), (sql_runs.cancel, "cancel")]
    wishes = [(await registry.change(each[0], "r1", *each[1:])).row.wish for each in (*asked, asked[1])]
    assert wishes == ["pause", "cancel_after_step", "cancel_after_step", "cancel", "cancel"]
    await service.close()
