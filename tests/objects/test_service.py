"""Services as asynchronous context managers."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowloom import (
    FileArtifactService,
    InMemoryArtifactService,
    InMemoryCredentialService,
    InMemoryMemoryService,
    InMemorySessionService,
    SqliteMemoryService,
    SqliteSessionService,
)
from flowloom.errors import StorageError
from flowloom.memory.postgres import PostgresMemoryService
from flowloom.objects.service import Service
from flowloom.sessions.postgres import PostgresSessionService


def services(folder: Path, dsn: str) -> list[Service]:
    """One of every kind."""
    return [
        InMemorySessionService(),
        InMemoryArtifactService(),
        InMemoryMemoryService(),
        InMemoryCredentialService(),
        FileArtifactService(folder / "files"),
        SqliteSessionService(folder / "sessions.db"),
        SqliteMemoryService(folder / "memories.db"),
        PostgresSessionService(dsn),
        PostgresMemoryService(dsn),
    ]


async def test_every_service_is_closed_by_its_block_and_may_be_closed_again(tmp_path: Path, postgres_dsn: str) -> None:
    """`async with` gives the service itself; closing what is closed is fine."""
    for service in services(tmp_path, postgres_dsn):
        async with service as entered:
            assert entered is service
        await service.close()


async def test_a_block_that_fails_closes_the_service_and_raises(tmp_path: Path) -> None:
    """What was stored is there for the next one; the closed one says that it is closed."""
    service = SqliteSessionService(tmp_path / "s.db")

    async def fail() -> None:
        async with service:
            await service.create_session(app_name="app", user_id="u", session_id="s")
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await fail()
    with pytest.raises(StorageError, match="closed"):
        await service.get_session(app_name="app", user_id="u", session_id="s")
    async with SqliteSessionService(tmp_path / "s.db") as again:
        assert await again.get_session(app_name="app", user_id="u", session_id="s") is not None
