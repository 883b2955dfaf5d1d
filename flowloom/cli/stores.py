"""Where the commands keep sessions: a file of the project's, or what `--store` names."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.artifacts.files import FileArtifactService
from flowloom.cli.session_file import read_session
from flowloom.cli.usage_error import UsageError
from flowloom.errors import FlowloomError
from flowloom.memory import BaseMemoryService, InMemoryMemoryService
from flowloom.sessions import BaseSessionService, InMemorySessionService, Session

VARIABLE = "FLOWLOOM_STORE"
FOLDER = Path(".flowloom")
MEMORY = "memory"

_POSTGRES = re.compile(r"postgres(ql)?://|(.*\s)?(host|hostaddr|dbname|service)\s*=")
_PASSWORDS = (
    (re.compile(r"(://[^:/@]*):.*@"), r"\1:***@"),
    (re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)"), r"\1***"),
)


@dataclass(slots=True)
class Store:
    """The services that a command works with."""

    name: str
    """As it is told; without a password."""
    sessions: BaseSessionService
    artifacts: BaseArtifactService
    memory: BaseMemoryService

    async def delete(self, session: Session) -> None:
        """Delete a session with its files; those of its user stay."""
        of_session: dict[str, Any] = {
            "app_name": session.app_name,
            "user_id": session.user_id,
            "session_id": session.id,
        }
        await self.sessions.delete_session(**of_session)
        for filename in await self.artifacts.list_artifact_keys(**of_session):
            if not filename.startswith("user:"):
                await self.artifacts.delete_artifact(**of_session, filename=filename)

    async def close(self) -> None:
        """Finish what was asked for, and let go of files and connections."""
        for service in (self.sessions, self.artifacts, self.memory):
            await service.close()


def store_named(dsn: str | None) -> str:
    """The store that is meant: the given one, that of the environment, or the project's own file."""
    name = dsn or os.environ.get(VARIABLE) or str(FOLDER / "sessions.db")
    return MEMORY if name.removeprefix("sqlite:///") == ":memory:" else name


def told_name(dsn: str | None) -> str:
    """The name of a store as it may be shown: without a password."""
    name = store_named(dsn)
    for found, instead in _PASSWORDS:
        name = found.sub(instead, name)
    return name


def missing_file(dsn: str | None) -> Path | None:
    """The file of a store that was not made yet."""
    name = store_named(dsn)
    if name == MEMORY or _POSTGRES.match(name):
        return None
    path = _file_of(name)
    return None if path.exists() else path


@asynccontextmanager
async def opened(dsn: str | None, *, make: bool = False) -> AsyncGenerator[Store]:
    """The services of a store, closed in the end; a file is made if `make` says so.

    `postgresql://...`, `memory`, or the path of a SQLite file (with or without `sqlite:///`). Raises `UsageError` for
    one that cannot be used.
    """
    name = told_name(dsn)
    if not make and (missing := missing_file(dsn)) is not None:
        raise UsageError(
            f"There is no store `{missing}`. `flowloom run` makes one, and so does `flowloom sessions import`; "
            f"`--store` names another."
        )
    store: Store | None = None
    try:
        store = _open(store_named(dsn), name, make)
        await store.sessions.get_session(app_name="-", user_id="-", session_id="-")  # the first use opens it
    except (FlowloomError, OSError) as error:
        if store is not None:
            await store.close()
        if isinstance(error, OSError):
            raise UsageError(f"The store `{name}` cannot be opened: {error.strerror}.") from error
        raise UsageError(str(error)) from error
    try:
        yield store
    finally:
        await store.close()


def _open(dsn: str, name: str, make: bool) -> Store:
    if dsn == MEMORY:
        return Store(name, InMemorySessionService(), InMemoryArtifactService(), InMemoryMemoryService())
    if _POSTGRES.match(dsn):
        from flowloom.memory.postgres import PostgresMemoryService
        from flowloom.sessions.postgres import PostgresSessionService

        return Store(name, PostgresSessionService(dsn), _ProjectFiles(), PostgresMemoryService(dsn))
    from flowloom.memory.sqlite import SqliteMemoryService
    from flowloom.sessions.sqlite import SqliteSessionService

    path = _file_of(dsn)
    if make and path.parent == FOLDER:
        _make_folder()
    _check(path)
    return Store(name, SqliteSessionService(path), FileArtifactService.beside(path), SqliteMemoryService(path))


def _file_of(dsn: str) -> Path:
    if "://" in dsn and not dsn.startswith("sqlite:///"):
        raise UsageError(
            f"`{told_name(dsn)}` names no store. Give `postgresql://user@host/database`, the path of a SQLite file, or "
            f"`memory`."
        )
    return Path(dsn.removeprefix("sqlite:///")).expanduser()


def _check(path: Path) -> None:
    """Raise `UsageError` for a path that can be no store, so that nothing is written to somebody else's file."""
    if path.is_dir():
        raise UsageError(f"The store `{path}` is a folder. Give a file in it, such as `{path / 'chats.db'}`.")
    if not path.resolve().parent.is_dir():
        raise UsageError(f"The store `{path}` cannot be made: there is no folder `{path.parent}`.")
    if path.is_file() and is_adk_database(path):
        raise UsageError(
            f"`{path}` is a database of google-adk's. Take its sessions over: `flowloom sessions import {path}`."
        )


def is_adk_database(path: Path) -> bool:
    """Whether google-adk keeps sessions in this SQLite file, and flowloom does not."""
    tables = _tables(path)
    return {"sessions", "events", "app_states"} <= tables and "flowloom_sessions" not in tables


def is_own_database(path: Path) -> bool:
    """Whether flowloom keeps sessions in this SQLite file."""
    return "flowloom_sessions" in _tables(path)


def _tables(path: Path) -> set[str]:
    import sqlite3

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:  # whoever opens it in earnest tells why
        return set()


def _make_folder() -> None:
    """Make the project's folder for what is kept; version control leaves it out."""
    FOLDER.mkdir(exist_ok=True)
    ignore = FOLDER / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


class _ProjectFiles(FileArtifactService):
    """Artifacts in the project's folder, which the first one makes."""

    def __init__(self) -> None:
        super().__init__(FOLDER / "artifacts")

    async def save_artifact(self, **arguments: Any) -> int:
        _make_folder()
        return await super().save_artifact(**arguments)


def session_name(text: str) -> str:
    """A name for a session as it was given. Raises `UsageError` for one that stores cannot keep, or people not type."""
    name = text.strip()
    if not name or not name.isprintable():
        raise UsageError(f"{text!r} is no name for a session: give some visible characters.")
    return name


async def session_of(named: str, dsn: str | None, app_name: str, user_id: str) -> Session:
    """The conversation that an option means: a file of JSON, or one of the store's. Raises `UsageError`."""
    if named.endswith(".json"):
        return read_session(Path(named))
    name = session_name(named)
    async with opened(dsn) as store:
        found = await store.sessions.get_session(app_name=app_name, user_id=user_id, session_id=name)
        if found is None:
            raise UsageError(
                f"There is no session `{name}` of app `{app_name}` and user `{user_id}` in the store `{store.name}`. "
                f"`flowloom sessions list` shows what there is; a file has to end in `.json`."
            )
        return found
