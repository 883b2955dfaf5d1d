"""Databases of both kinds for tests that hold for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowloom.sql import Database
from flowloom.sql.postgres import PostgresDatabase
from flowloom.sql.sqlite import SqliteDatabase

Open = Callable[[], Database]


@pytest.fixture(params=["sqlite", "postgres"])
def open_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens one and the same database, as often as it is called."""
    if request.param == "sqlite":
        yield lambda: SqliteDatabase(tmp_path / "a.db")
    else:
        dsn: str = request.getfixturevalue("postgres_dsn")
        yield lambda: PostgresDatabase(dsn)
