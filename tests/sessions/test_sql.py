"""The SQL stores: what every store promises, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowloom import PostgresSessionService, SqliteSessionService
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing.suites import SessionServiceSuite


class TestSqliteKeepsEveryStoresRules(SessionServiceSuite):
    """A file, and a second service on it."""

    shares_leases = True
    keeps_initial_state = True

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path) -> None:
        self.path = tmp_path / "sessions.db"

    def make_service(self) -> SqlSessionService:
        return SqliteSessionService(self.path)

    def reopen(self, service: object) -> SqlSessionService:
        return SqliteSessionService(self.path)


class TestSqliteInMemoryKeepsEveryStoresRules(SessionServiceSuite):
    keeps_initial_state = True

    def make_service(self) -> SqlSessionService:
        return SqliteSessionService(":memory:")


class TestSqliteWithoutCacheKeepsEveryStoresRules(TestSqliteKeepsEveryStoresRules):
    def make_service(self) -> SqlSessionService:
        return SqliteSessionService(self.path, cached_events=0)


class TestPostgresKeepsEveryStoresRules(SessionServiceSuite):
    """A database, and a second service on it."""

    shares_leases = True
    keeps_initial_state = True

    @pytest.fixture(autouse=True)
    def server(self, postgres_dsn: str) -> None:
        self.dsn = postgres_dsn

    def make_service(self) -> SqlSessionService:
        return PostgresSessionService(self.dsn)

    def reopen(self, service: object) -> SqlSessionService:
        return PostgresSessionService(self.dsn)
