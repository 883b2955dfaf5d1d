"""`PostgresSessionService`: sessions in a PostgreSQL database. Needs the extra `postgres`."""

from __future__ import annotations

from flowloom.sessions.sql_service import CACHED_EVENTS, SqlSessionService
from flowloom.sql.postgres import MAX_CONNECTIONS, PostgresDatabase


class PostgresSessionService(SqlSessionService):
    """Sessions in a PostgreSQL database, which any number of processes may share.

    `dsn`: as libpq takes it, `postgresql://user@host:5432/database`. At most `max_connections` are open at once.
    `cached_events`: how many events of sessions that were seen stay in memory. Tables are made when they are missing.

    Raises `ConfigurationError` for a `dsn` that cannot be read, `StorageError` when the server cannot be used.
    """

    def __init__(self, dsn: str, *, max_connections: int = MAX_CONNECTIONS, cached_events: int = CACHED_EVENTS) -> None:
        super().__init__(PostgresDatabase(dsn, max_connections=max_connections), cached_events=cached_events)
