"""`DatabaseSessionService`: the store that a URL names, as google-adk's users write it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flowloom.errors import ConfigurationError
from flowloom.events import Event
from flowloom.sessions import DatabaseSessionService

WHERE = {"app_name": "app", "user_id": "ann", "session_id": "s1"}


async def kept(url: str) -> None:
    """Write to the store at a URL, and read it from another service."""
    async with DatabaseSessionService(url) as service:
        session = await service.create_session(**WHERE)
        await service.append_event(session, Event(author="user", invocation_id="i"))
    async with DatabaseSessionService(db_url=url) as service:
        session = await service.get_session(**WHERE)
        assert session is not None
        assert [event.author for event in session.events] == ["user"]


@pytest.mark.parametrize("kind", ["sqlite", "sqlite+aiosqlite"])
async def test_a_file_of_sqlite(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes and a path: an absolute one makes four. The driver that SQLAlchemy would take is not asked for."""
    monkeypatch.chdir(tmp_path)
    await kept(f"{kind}:///relative.db")
    await kept(f"{kind}:///{tmp_path}/absolute.db")
    assert {"relative.db", "absolute.db"} <= {*os.listdir(tmp_path)}


async def test_sqlite_in_memory() -> None:
    """Without a path, or with SQLite's own name for it."""
    for url in ("sqlite://", "sqlite:///:memory:"):
        async with DatabaseSessionService(url) as service:
            assert (await service.create_session(**WHERE)).id == "s1"


async def test_a_postgresql_server(postgres_dsn: str) -> None:
    """With the name of a driver and without."""
    await kept(postgres_dsn.replace("postgresql://", "postgresql+asyncpg://"))


@pytest.mark.parametrize("url", ["mysql+pymysql://ann:secret@host/db", "sqlite:file.db", "sessions.db", ""])
def test_another_database_is_refused_without_being_shown(url: str) -> None:
    """The URL may hold a password."""
    with pytest.raises(ConfigurationError, match=r"sqlite:///file\.db.*postgresql://") as raised:
        DatabaseSessionService(url)
    assert "secret" not in str(raised.value)


def test_options_of_sqlalchemy_are_refused() -> None:
    """Rather than left without effect."""
    with pytest.raises(ConfigurationError, match="`echo`, `pool_pre_ping`: options of SQLAlchemy"):
        DatabaseSessionService("sqlite://", pool_pre_ping=True, echo=False)
