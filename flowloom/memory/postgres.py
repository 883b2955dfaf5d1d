"""`PostgresMemoryService`: memories in a PostgreSQL database, found by a GIN index. Needs the extra `postgres`."""

from __future__ import annotations

from flowloom.memory.sql import SqlMemoryService
from flowloom.sql.postgres import PostgresDatabase


class PostgresMemoryService(SqlMemoryService):
    """Keeps memories in a PostgreSQL database, for any number of processes.

    `dsn`: as libpq takes it, `postgresql://user@host/database`. It may be the database of a `PostgresSessionService`.
    See `SqlMemoryService` for what is found, and for `max_results`.
    """

    def __init__(self, dsn: str, *, max_results: int | None = None) -> None:
        super().__init__(PostgresDatabase(dsn), max_results=max_results)
