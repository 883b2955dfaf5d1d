"""`CourierSuite`: no rule holds in a fleet whose courier brings nothing. (That couriers which bring all keep the rules
is tried in `tests/durable/test_couriers.py`.)"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Sequence
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
