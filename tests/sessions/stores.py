"""Stores of every kind for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from flowloom import BaseSessionService, InMemorySessionService, PostgresSessionService, SqliteSessionService

Open = Callable[[], BaseSessionService]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the same store again, as another process would; one in memory is the same service."""
    opened: list[BaseSessionService] = []
    dsn: str = request.getfixturevalue("postgres_dsn") if request.param == "postgres" else ""

    def store() -> BaseSessionService:
        if request.param == "memory":
            opened[:] = opened or [InMemorySessionService()]
            return opened[0]
        opened.append(PostgresSessionService(dsn) if dsn else SqliteSessionService(tmp_path / "a.db"))
        return opened[-1]

    yield store
    for service in opened:
        await service.close()
