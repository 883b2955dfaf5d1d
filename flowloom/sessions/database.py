"""`DatabaseSessionService`: sessions in the database at a URL."""

from __future__ import annotations

from typing import Any

from flowloom.errors import ConfigurationError, quoted_list
from flowloom.sessions.sql_service import CACHED_EVENTS, SqlSessionService
from flowloom.sql import Database
from flowloom.sql.postgres import PostgresDatabase
from flowloom.sql.sqlite import SqliteDatabase
from flowloom.sql.urls import kind_and_rest


class DatabaseSessionService(SqlSessionService):
    """Sessions in a SQLite file or a PostgreSQL database, by a URL as SQLAlchemy writes it; SQLAlchemy is not needed.

    `db_url`: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://` (in memory) or
    `postgresql://user@host:5432/database`; the name of a driver (`sqlite+aiosqlite`, `postgresql+asyncpg`) makes no
    difference. `cached_events`: how many events of sessions that were seen stay in memory. The tables are flowloom's
    own: sessions that google-adk has stored are imported (`flowloom sessions import`), not read in place.

    Raises `ConfigurationError` for another database, and for options of SQLAlchemy's engine (`engine_options`);
    `MissingExtraError` for PostgreSQL without the extra `postgres`; `StorageError` for a file or a server that cannot
    be used.
    """

    def __init__(self, db_url: str, *, cached_events: int = CACHED_EVENTS, **engine_options: Any) -> None:
        if engine_options:
            raise ConfigurationError(
                f"{quoted_list(sorted(engine_options))}: options of SQLAlchemy, which is not used. Leave them out, or "
                f"use `SqliteSessionService` or `PostgresSessionService` with options of their own."
            )
        super().__init__(_database_at(db_url), cached_events=cached_events)


def _database_at(url: str) -> Database:
    kind, rest = kind_and_rest(url) or ("", "")
    if kind == "sqlite":
        return SqliteDatabase(url)
    if kind in ("postgres", "postgresql"):
        return PostgresDatabase(f"postgresql://{rest}")
    raise ConfigurationError(  # without the URL, which may hold a password
        f"Sessions are kept in SQLite (`sqlite:///file.db`) or PostgreSQL (`postgresql://user@host/database`), not at "
        f"a URL that begins with `{url.partition(':')[0] if ':' in url else url[:20]}`."
    )
