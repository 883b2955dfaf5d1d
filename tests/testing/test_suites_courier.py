"""`CourierSuite`: no rule holds in a fleet whose courier brings nothing, and each notices one that does its own part
wrong. (That couriers which bring all keep the rules is tried in `tests/durable/test_couriers.py`.)"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path

import pytest

from flowloom.durable import Courier, StoreCourier
from flowloom.durable.courier import Deliver, Free
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing.suites import courier_place
from flowloom.testing.suites.courier import CourierSuite
from flowloom.testing.suites.courier_place import Crew, Place

from .rules import breaks, rules_of


class Deaf(StoreCourier):
    """A courier that brings no run to any worker."""

    async def offer(self, run_ids: Sequence[str]) -> None:
        pass

    async def serve(self, handle: Deliver, free: Free) -> None:
        await asyncio.Event().wait()


class DeafSuite(CourierSuite):
    """The rules, for that one."""

    runs, kills = 3, 1

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        return Deaf(service, app_name)


class Picky(StoreCourier):
    """A courier that brings all runs one by one, each by its id, and to which something is wrong."""

    def __init__(self, store: str, service: SqlSessionService, app_name: str) -> None:
        super().__init__(service, app_name, poll=0.1)
        self.store = Path(store)

    def brings(self, run_id: str, user_id: str) -> bool:
        """Whether it brings a run that is ready."""
        return True

    async def meddle(self, sql: str) -> None:
        """Change the registry, which is no courier's to do."""
        await self._registry.write(lambda connection: connection.execute(sql), lane=self)

    async def serve(self, handle: Deliver, free: Free) -> None:
        ready = "SELECT run_id, user_id FROM flowloom_runs WHERE status = 'ready' ORDER BY seq"
        while True:
            await free()
            for run_id, user_id in await self._registry.read(lambda c: c.execute(ready).fetchall()):
                if self.brings(run_id, user_id) and await handle([run_id]):
                    break
            else:
                await asyncio.sleep(0.02)


class Forgetful(Picky):
    """It brings each run once, whatever comes later."""

    def brings(self, run_id: str, user_id: str) -> bool:
        try:
            (self.store.parent / f"brought {run_id}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Unfair(Picky):
    """It brings no run of one user."""

    def brings(self, run_id: str, user_id: str) -> bool:
        return user_id != "user1"


class Trusting(Picky):
    """It brings what a client has offered, and nothing that workers offer again because that was lost."""

    _serves = False

    async def offer(self, run_ids: Sequence[str]) -> None:
        for run_id in () if self._serves else run_ids:
            self._note_of(run_id).touch()

    async def serve(self, handle: Deliver, free: Free) -> None:
        self._serves = True
        await super().serve(handle, free)

    def brings(self, run_id: str, user_id: str) -> bool:
        return self._note_of(run_id).exists()

    def _note_of(self, run_id: str) -> Path:
        return self.store.parent / f"offered {run_id}"


class Impatient(Picky):
    """It brings runs before the one before them in their session is over."""

    async def serve(self, handle: Deliver, free: Free) -> None:
        async def at_once(run_ids: Sequence[str] | None = None) -> Sequence[Awaitable[None]]:
            await self.meddle("UPDATE flowloom_runs SET status = 'ready', awaits = NULL WHERE awaits = 'session'")
            return await handle(run_ids)

        await super().serve(at_once, free)


class Generous(Picky):
    """It gives places back that are taken, and brings what waits for one."""

    async def serve(self, handle: Deliver, free: Free) -> None:
        async def more(run_ids: Sequence[str] | None = None) -> Sequence[Awaitable[None]]:
            begun = await handle(run_ids)
            await self.meddle("DELETE FROM flowloom_slots")
            await self.meddle("UPDATE flowloom_runs SET status = 'ready', awaits = NULL WHERE awaits <> 'session'")
            return begun

        await super().serve(more, free)


class Stubborn(Picky):
    """It brings a run all the same that was cancelled before it began."""

    async def withdraw(self, run_id: str) -> None:
        await self.meddle(f"UPDATE flowloom_runs SET status = 'ready' WHERE run_id = '{run_id}'")


def suite_of(kind: type[Picky]) -> type[CourierSuite]:
    """The rules, for one of those."""

    class Wrong(CourierSuite):
        runs, kills, sessions = 12, 4, 2

        def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
            return kind(store, service, app_name)

    Wrong.__name__ = Wrong.__qualname__ = f"{kind.__name__}Suite"
    return Wrong


ForgetfulSuite, UnfairSuite, TrustingSuite = map(suite_of, (Forgetful, Unfair, Trusting))
ImpatientSuite, GenerousSuite, StubbornSuite = map(suite_of, (Impatient, Generous, Stubborn))

_LOST = "brought to no worker"
WRONG: dict[str, tuple[type[CourierSuite], str]] = {
    "every_run_reaches_a_worker_once": (UnfairSuite, _LOST),
    "what_is_lost_doubled_or_late_changes_nothing": (TrustingSuite, _LOST),
    "runs_of_a_session_come_in_the_order_of_submission": (ImpatientSuite, "session"),
    "runs_outlive_workers_that_are_killed": (ForgetfulSuite, _LOST),
    "a_worker_that_was_stopped_and_woken_changes_nothing": (ForgetfulSuite, _LOST),
    "a_worker_that_is_told_to_end_hands_its_runs_over": (ForgetfulSuite, _LOST),
    "a_run_that_kills_its_workers_is_given_up": (ForgetfulSuite, "not brought to a worker that lives"),
    "a_run_is_cancelled_from_elsewhere": (StubbornSuite, "cancelled before it began"),
    "a_run_is_paused_and_resumed_from_elsewhere": (ForgetfulSuite, _LOST),
    "a_person_answers_after_the_worker_is_gone": (ForgetfulSuite, _LOST),
    "what_is_asked_holds_though_the_worker_dies": (ForgetfulSuite, _LOST),
    "one_of_two_answers_at_once_counts": (ForgetfulSuite, _LOST),
    "a_limit_holds_for_the_fleet": (GenerousSuite, "where 2 may be"),
    "a_limit_of_model_calls_holds_for_the_fleet": (GenerousSuite, "where 3 may be"),
}
"""For each rule a courier that breaks it, and brings runs all the same; and what is told then."""


@pytest.mark.soak
@pytest.mark.parametrize("rule", sorted(rules_of(CourierSuite)))
def test_every_rule_notices_a_courier_that_does_that_wrong(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that otherwise brings what is ready."""
    monkeypatch.setattr(courier_place, "SECONDS", 5.0)
    suite, why = WRONG[rule]
    crew = Crew(suite)
    given = {"place": Place(str(tmp_path / "runs.db"), tmp_path), "crew": crew}
    wanted = inspect.signature(getattr(CourierSuite, f"test_{rule}")).parameters
    try:
        told = breaks(suite, rule, **{name: value for name, value in given.items() if name in wanted})
    finally:
        crew.close()
    assert why in told


@pytest.fixture(scope="module")
def workers() -> Iterator[Crew]:
    crew = Crew(DeafSuite)
    yield crew
    crew.close()


@pytest.mark.soak
@pytest.mark.parametrize("rule", sorted(rules_of(CourierSuite)))
def test_every_rule_fails_if_no_run_is_brought(
    rule: str, workers: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what did not happen, and which rule that breaks."""
    monkeypatch.setattr(courier_place, "SECONDS", 2.0)
    given = {"place": Place(str(tmp_path / "runs.db"), tmp_path), "crew": workers}
    wanted = inspect.signature(getattr(CourierSuite, f"test_{rule}")).parameters
    try:
        breaks(DeafSuite, rule, **{name: value for name, value in given.items() if name in wanted})
    finally:
        workers.end()
