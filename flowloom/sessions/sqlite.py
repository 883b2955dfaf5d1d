"""`SqliteSessionService`: sessions in a SQLite file."""

from __future__ import annotations

import os

from flowloom.objects.two_names import one_of
from flowloom.sessions.sql_service import CACHED_EVENTS, SqlSessionService
from flowloom.sql.sqlite import SqliteDatabase


class SqliteSessionService(SqlSessionService):
    """Sessions in a SQLite file, which several processes of one machine may share. Needs nothing but Python.

    `path` (or `db_path`, google-adk's name of it): the file, made when it does not exist, in a directory that does;
    `:memory:` keeps everything in memory.
    `cached_events`: how many events of sessions that were seen stay in memory.

    An event that was appended is on the disk. Raises `StorageError` for a file that cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        db_path: str | os.PathLike[str] | None = None,
        cached_events: int = CACHED_EVENTS,
    ) -> None:
        super().__init__(SqliteDatabase(one_of(("path", "db_path"), path, db_path)), cached_events=cached_events)
