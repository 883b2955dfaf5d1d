"""The couriers of the package keep the rules of couriers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flowloom.durable import Courier, DbosCourier, StoreCourier
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing.suites.courier import CourierSuite
from flowloom.testing.suites.courier_place import Crew, Place


class Patient:
    """Workers, followers and tests have the machine together."""

    behind = 5.0


class TestStoreCourierOnSqlite(Patient, CourierSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> str:
        return str(tmp_path / "runs.db")

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        return StoreCourier(service, app_name, poll=0.1)


class TestStoreCourierOnPostgres(Patient, CourierSuite):
    @pytest.fixture
    def store(self, postgres_dsn: str) -> str:
        return postgres_dsn

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        return StoreCourier(service, app_name, poll=0.1)

    @pytest.mark.soak
    def test_runs_of_a_session_come_in_the_order_of_submission(self, place: Place, crew: Crew) -> None:
        super().test_runs_of_a_session_come_in_the_order_of_submission(place, crew)


class TestDbosCourier(Patient, CourierSuite):
    @pytest.fixture
    def store(self, postgres_dsn: str) -> str:
        return postgres_dsn

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        return DbosCourier(store)

    pace = 1.0  # DBOS takes its time to begin

    @pytest.mark.soak
    def test_runs_of_a_session_come_in_the_order_of_submission(self, place: Place, crew: Crew) -> None:
        super().test_runs_of_a_session_come_in_the_order_of_submission(place, crew)


MANY = int(os.environ.get("FLOWLOOM_KILLS", "30"))
"""200 have all counts as they are claimed; other tests have a tenth as many zombies, and so on."""


class Long:
    """The same with many kills, and all else as often."""

    kills, runs, zombies, sessions = MANY, 4 * MANY, MANY // 10, MANY // 10
    tries = max(MANY * 3 // 20, 1)
    asleep, behind = (15.0, 0.5) if MANY >= 200 else (1.0, 5.0)


@pytest.mark.soak
@pytest.mark.timeout(1800)
class TestStoreCourierOnSqliteLong(Long, TestStoreCourierOnSqlite):
    """On SQLite."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
class TestStoreCourierOnPostgresLong(Long, TestStoreCourierOnPostgres):
    """On PostgreSQL."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
class TestDbosCourierLong(Long, TestDbosCourier):
    """With DBOS."""
