"""Services from their URIs: where sessions, artifacts and memories are kept (server spec §1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.errors import ConfigurationError
from flowloom.memory import BaseMemoryService, InMemoryMemoryService
from flowloom.sessions import BaseSessionService, InMemorySessionService

_S = TypeVar("_S")
_POSTGRES = ("postgresql", "postgres")
_NOT_HERE = {
    "agentengine": "Agent Engine",
    "gs": "Google Cloud Storage",
    "rag": "RAG corpora",
    "mysql": "MySQL",
}


def session_service(uri: str) -> BaseSessionService:
    """The sessions that `memory://`, `sqlite:///FILE` or `postgresql://...` keeps. Raises `ConfigurationError`."""

    def in_sqlite(file: str) -> BaseSessionService:
        from flowloom.sessions.sqlite import SqliteSessionService

        return SqliteSessionService(file)

    def in_postgres(dsn: str) -> BaseSessionService:
        from flowloom.sessions.postgres import PostgresSessionService

        return PostgresSessionService(dsn)

    return _in_database("sessions", uri, InMemorySessionService, in_sqlite, in_postgres)


def memory_service(uri: str) -> BaseMemoryService:
    """The memories that `memory://`, `sqlite:///FILE` or `postgresql://...` keeps. Raises `ConfigurationError`."""

    def in_sqlite(file: str) -> BaseMemoryService:
        from flowloom.memory.sqlite import SqliteMemoryService

        return SqliteMemoryService(file)

    def in_postgres(dsn: str) -> BaseMemoryService:
        from flowloom.memory.postgres import PostgresMemoryService

        return PostgresMemoryService(dsn)

    return _in_database("memories", uri, InMemoryMemoryService, in_sqlite, in_postgres)


def artifact_service(uri: str) -> BaseArtifactService:
    """The artifacts that `memory://` or `file://FOLDER` keeps. Raises `ConfigurationError`."""
    scheme = _scheme_of(uri)
    if scheme == "memory":
        return InMemoryArtifactService()
    if scheme == "file":
        from flowloom.artifacts.files import FileArtifactService

        return FileArtifactService(_folder(uri))
    raise _unknown("artifacts", uri, "memory:// or file://FOLDER")


def services_beside(uri: str) -> tuple[BaseArtifactService, BaseMemoryService]:
    """The artifacts and memories that workers (`flowloom worker`) keep whose sessions are at the address `uri`:
    beside the file, or of a server of PostgreSQL in `.flowloom/artifacts`, which workers of other machines have their
    own of. Raises `ConfigurationError`."""
    from flowloom.artifacts.files import FileArtifactService

    if _scheme_of(uri) == "sqlite":
        file = _sqlite_file(uri, "sessions")
        if file == ":memory:":
            raise ConfigurationError(
                f"`{uri}` is in the memory of one process, and a fleet needs one that its workers can "
                f"open, too. Give `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`."
            )
        return FileArtifactService.beside(file), memory_service(uri)
    return FileArtifactService(Path(".flowloom", "artifacts")), memory_service(uri)


def _in_database(
    what: str, uri: str, memory: Callable[[], _S], sqlite: Callable[[str], _S], postgres: Callable[[str], _S]
) -> _S:
    scheme = _scheme_of(uri)
    if scheme == "memory":
        return memory()
    if scheme == "sqlite":
        return sqlite(_sqlite_file(uri, what))
    if scheme in _POSTGRES:
        return postgres(_dsn(uri))
    raise _unknown(what, uri, "memory://, sqlite:///FILE or postgresql://USER@HOST/DATABASE")


def _sqlite_file(uri: str, what: str) -> str:
    """The file of `sqlite:///FILE`: relative, or absolute with four slashes; `:memory:` for none.

    Raises `ConfigurationError` for another form, and for a folder that is not there.
    """
    _, _, rest = uri.partition("://")
    file = unquote(rest.partition("?")[0])
    if not file.startswith("/") or file == "/":
        raise _unknown(what, uri, "sqlite:///FILE (relative), sqlite:////FILE (absolute) or sqlite:///:memory:")
    file = file[1:]
    if file != ":memory:" and not Path(file).absolute().parent.is_dir():
        raise ConfigurationError(f"`{uri}` cannot be used: there is no folder `{Path(file).parent}`. Make it first.")
    return file


def _scheme_of(uri: str) -> str:
    scheme, found, _ = uri.partition("://")
    return scheme.partition("+")[0].lower() if found else ""


def _dsn(uri: str) -> str:
    """The address as libpq reads it, without the driver that SQLAlchemy is told."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme.partition('+')[0]}://{rest}"


def _folder(uri: str) -> Path:
    """The folder of `file://FOLDER`: absolute with three slashes, relative with two."""
    parts = urlsplit(uri)
    folder = unquote(parts.netloc + parts.path)
    if not folder:
        raise _unknown("artifacts", uri, "file://FOLDER")
    return Path(folder)


def _unknown(what: str, uri: str, forms: str) -> ConfigurationError:
    scheme = _scheme_of(uri)
    if scheme in _NOT_HERE:
        return ConfigurationError(f"{_NOT_HERE[scheme]} (`{scheme}://`) cannot keep {what} here yet. Give {forms}.")
    return ConfigurationError(f"`{uri}` names no place for {what}. Give {forms}.")
