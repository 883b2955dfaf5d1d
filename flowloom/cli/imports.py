"""`flowloom sessions import`: sessions from files of JSON, and from databases of flowloom and google-adk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flowloom.cli.options import USER_ID
from flowloom.cli.session_file import read_session
from flowloom.cli.stores import is_own_database
from flowloom.cli.usage_error import UsageError
from flowloom.errors import quoted_list
from flowloom.interop.adk_sqlite import AdkSqliteDatabase
from flowloom.sessions import BaseSessionService
from flowloom.sessions.sqlite import SqliteSessionService


async def import_file(file: Path, service: BaseSessionService, app: str | None) -> list[str]:
    """Take over what a file holds; returns the names of the sessions. Raises `UsageError`, and what the store raises.

    `app` chooses one of a database; a session in JSON is put under it.
    """
    if _is_database(file):
        other = SqliteSessionService(file) if is_own_database(file) else AdkSqliteDatabase(file)
        try:
            return await _copy(other, service, file, app)
        finally:
            await other.close()
    session = read_session(file)
    session.app_name = app or session.app_name
    if not session.app_name:
        raise UsageError(f"`{file}` does not say which app its session belongs to. Give `--app NAME`.")
    session.user_id = session.user_id or USER_ID
    await service.import_session(session)
    return [session.id]


async def _copy(other: BaseSessionService, service: BaseSessionService, file: Path, app: str | None) -> list[str]:
    apps = await other.app_names()
    if app is not None and app not in apps:
        raise UsageError(f"`{file}` holds no sessions of app `{app}`. The apps are: {quoted_list(apps)}.")
    names: list[str] = []
    for app_name in apps if app is None else [app]:
        for listed in (await other.list_sessions(app_name=app_name)).sessions:
            key: dict[str, Any] = {"app_name": app_name, "user_id": listed.user_id, "session_id": listed.id}
            session = await other.get_session(**key)
            if session is not None:
                await service.import_session(session, initial_state=await other.initial_state(**key))
                names.append(listed.id)
    return names


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}.") from error
