"""The couriers of the package keep the rules of couriers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flowloom.durable import Courier, DbosCourier, StoreCourier
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing.suites.courier import CourierSuite


class TestStoreCourierOnSqlite(CourierSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> str:
        return str(tmp_path / "runs.db")

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        return StoreCourier(service, app_name, poll=0.1)


class TestStoreCourierOnPostgres(CourierSuite):
    @pytest.fixture
    def store(self, postgres_dsn: str) -> str:
        return postgres_dsn

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        return StoreCourier(service, app_name, poll=0.1)


class TestDbosCourier(CourierSuite):
    @pytest.fixture
    def store(self, postgres_dsn: str) -> str:
        return postgres_dsn

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        return DbosCourier(store)


MANY = int(os.environ.get("FLOWLOOM_KILLS", "30"))


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestStoreCourierOnSqliteLong(TestStoreCourierOnSqlite):
    """The same with many kills."""

    kills, runs = MANY, 4 * MANY


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestStoreCourierOnPostgresLong(TestStoreCourierOnPostgres):
    """The same with many kills."""

    kills, runs = MANY, 4 * MANY


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestDbosCourierLong(TestDbosCourier):
    """The same with many kills."""

    kills, runs = MANY, 4 * MANY
