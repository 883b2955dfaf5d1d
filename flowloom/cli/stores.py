"""Where the commands keep sessions: a file of the project's, or what `--store` names."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.artifacts.files import FileArtifactService
from flowloom.cli.session_file import read_session
from flowloom.cli.usage_error import UsageError
from flowloom.errors import FlowloomError
from flowloom.memory import BaseMemoryService, InMemoryMemoryService
from flowloom.sessions import BaseSessionService, InMemorySessionService, Session

VARIABLE = "FLOWLOOM_STORE"
FOLDER = Path(".flowloom")
USER_ID = "user"


@dataclass(slots=True)
class Store:
    """The services that a command works with."""

    name: str
    sessions: BaseSessionService
    artifacts: BaseArtifactService
    memory: BaseMemoryService


def store_named(dsn: str | None) -> str:
    """The store that is meant: the given one, that of the environment, or the project's own file."""
    return dsn or os.environ.get(VARIABLE) or str(FOLDER / "sessions.db")


@asynccontextmanager
async def opened(dsn: str | None) -> AsyncGenerator[Store]:
    """The services of a store, closed in the end. Raises `UsageError` for one that cannot be used.

    `postgresql://...`, `memory`, or the path of a SQLite file (with or without `sqlite:///`).
    """
    name = store_named(dsn)
    try:
        store = _open(name)
    except (FlowloomError, OSError) as error:
        raise UsageError(f"The store `{name}` cannot be opened: {error}") from error
    try:
        yield store
    finally:
        await store.sessions.close()
        close = getattr(store.memory, "close", None)
        if close is not None:
            await close()


def _open(name: str) -> Store:
    if name == "memory":
        return Store(name, InMemorySessionService(), InMemoryArtifactService(), InMemoryMemoryService())
    if re.match(r"postgres(ql)?://", name):
        from flowloom.memory.postgres import PostgresMemoryService
        from flowloom.sessions.postgres import PostgresSessionService

        files = FileArtifactService(_folder() / "artifacts")
        return Store(name, PostgresSessionService(name), files, PostgresMemoryService(name))
    from flowloom.memory.sqlite import SqliteMemoryService
    from flowloom.sessions.sqlite import SqliteSessionService

    if "://" in name and not name.startswith("sqlite:///"):
        raise UsageError(
            f"`{name}` names no store. Give `postgresql://user@host/database`, the path of a SQLite file, or `memory`."
        )
    path = Path(name.removeprefix("sqlite:///"))
    if path.parent == FOLDER:
        _folder()
    elif not path.resolve().parent.is_dir():
        raise UsageError(f"The store `{name}` cannot be made: there is no folder `{path.parent}`.")
    files = FileArtifactService(path.resolve().parent / "artifacts")
    return Store(name, SqliteSessionService(path), files, SqliteMemoryService(path))


def _folder() -> Path:
    """The project's folder for what is kept; version control leaves it out."""
    FOLDER.mkdir(exist_ok=True)
    ignore = FOLDER / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return FOLDER


async def session_of(named: str, dsn: str | None, app_name: str) -> Session:
    """The conversation that an option means: a file of JSON, or one of the store's. Raises `UsageError`."""
    path = Path(named)
    if path.suffix == ".json" or path.is_file():
        return read_session(path)
    async with opened(dsn) as store:
        found = await store.sessions.get_session(app_name=app_name, user_id=USER_ID, session_id=named)
    if found is None:
        raise UsageError(
            f"There is no session `{named}` of app `{app_name}` in the store `{store_named(dsn)}`, and no file of that "
            f"name. `flowloom sessions list` shows what there is."
        )
    return found
