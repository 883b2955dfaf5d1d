"""`SqliteMemoryService`: memories in a SQLite file, found by its FTS5 index."""

from __future__ import annotations

import os

from flowloom.memory.sql import SqlMemoryService
from flowloom.objects.two_names import one_of
from flowloom.sql.sqlite import SqliteDatabase


class SqliteMemoryService(SqlMemoryService):
    """Keeps memories in a SQLite file, which other processes may use at the same time.

    `path` (or `db_path`, google-adk's name of it): the file, made when it does not exist; `:memory:` for a database
    that lives as long as the service. It may be the file of a `SqliteSessionService`. See `SqlMemoryService` for what
    is found, and for `max_results`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        db_path: str | os.PathLike[str] | None = None,
        max_results: int | None = None,
    ) -> None:
        super().__init__(SqliteDatabase(one_of(("path", "db_path"), path, db_path)), max_results=max_results)
