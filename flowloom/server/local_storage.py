"""Local storage: the sessions and artifacts of each app in a hidden folder of its own (server spec §1)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from google.genai import types

from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.artifacts.files import FileArtifactService
from flowloom.artifacts.version import ArtifactVersion
from flowloom.events import Event
from flowloom.sessions import BaseSessionService, InMemorySessionService, Session
from flowloom.sessions.leases import SessionLease
from flowloom.sessions.service import GetSessionConfig, ListSessionsResponse
from flowloom.sessions.sqlite import SqliteSessionService

_log = logging.getLogger("flowloom.server")
_FOLDER = ".flowloom"
HomeOf = Callable[[str], Path | None]
"""The folder in which what belongs to an app is kept; None if there is no such app."""
_S = TypeVar("_S", BaseSessionService, BaseArtifactService)


def storage_folder(home: Path) -> Path | None:
    """The hidden folder in the folder of an app, made if it is missing; None, with a warning, if it cannot be
    written."""
    folder = home / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
        reason = "it may not be written"
    except OSError as error:
        reason = error.strerror or str(error)
    _log.warning("`%s` cannot be used (%s): sessions and artifacts are kept in memory.", folder, reason)
    return None


class _PerApp(Generic[_S]):
    """The service of each app, made at its first use; one in memory, which stays empty, for all that are not there."""

    def __init__(self, home_of: HomeOf, make: Callable[[Path | None], _S]) -> None:
        self._home_of, self._make = home_of, make
        self._services: dict[Path | None, _S] = {}

    def __getitem__(self, app_name: str) -> _S:
        home = self._home_of(app_name)
        found = self._services.get(home)
        if found is None:
            found = self._services[home] = self._make(None if home is None else storage_folder(home))
        return found

    def all(self) -> list[_S]:
        return list(self._services.values())

    async def close(self) -> None:
        for service in self.all():
            await service.close()
        self._services.clear()


class LocalSessions(BaseSessionService):
    """Sessions in `.flowloom/sessions.db` of the folder that `home_of` gives for the name of an app."""

    def __init__(self, home_of: HomeOf) -> None:
        self._per_app = _PerApp(home_of, _sessions_in)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        return await self._per_app[app_name].create_session(
            app_name=app_name, user_id=user_id, state=state, session_id=session_id
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        return await self._per_app[app_name].get_session(
            app_name=app_name, user_id=user_id, session_id=session_id, config=config
        )

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        return await self._per_app[app_name].list_sessions(app_name=app_name, user_id=user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await self._per_app[app_name].delete_session(app_name=app_name, user_id=user_id, session_id=session_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        return await self._per_app[session.app_name].append_event(session, event)

    async def append_answer(self, session: Session, event: Event) -> Event:
        return await self._per_app[session.app_name].append_answer(session, event)

    async def append_buffered(self, session: Session, event: Event) -> Event:
        return await self._per_app[session.app_name].append_buffered(session, event)

    async def flush(self) -> None:
        for service in self._per_app.all():
            await service.flush()

    async def app_names(self) -> list[str]:
        return sorted({name for service in self._per_app.all() for name in await service.app_names()})

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await self._per_app[app_name].get_user_state(app_name=app_name, user_id=user_id)

    async def initial_state(self, *, app_name: str, user_id: str, session_id: str) -> dict[str, Any]:
        return await self._per_app[app_name].initial_state(app_name=app_name, user_id=user_id, session_id=session_id)

    async def fork(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_session_id: str | None = None,
        up_to_event_id: str | None = None,
    ) -> Session:
        return await self._per_app[app_name].fork(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            new_session_id=new_session_id,
            up_to_event_id=up_to_event_id,
        )

    async def import_session(self, session: Session, *, initial_state: Mapping[str, Any] | None = None) -> Session:
        return await self._per_app[session.app_name].import_session(session, initial_state=initial_state)

    async def acquire_lease(
        self, *, app_name: str, user_id: str, session_id: str, wait: bool, seconds: float = 30.0
    ) -> SessionLease:
        return await self._per_app[app_name].acquire_lease(
            app_name=app_name, user_id=user_id, session_id=session_id, wait=wait, seconds=seconds
        )

    async def close(self) -> None:
        await self._per_app.close()


class LocalArtifacts(BaseArtifactService):
    """Artifacts in `.flowloom/artifacts` of the folder that `home_of` gives for the name of an app."""

    def __init__(self, home_of: HomeOf) -> None:
        self._per_app = _PerApp(home_of, _artifacts_in)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        return await self._per_app[app_name].save_artifact(
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            artifact=artifact,
            session_id=session_id,
            custom_metadata=custom_metadata,
        )

    async def load_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> types.Part | None:
        return await self._per_app[app_name].load_artifact(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id, version=version
        )

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        return await self._per_app[app_name].list_artifact_keys(
            app_name=app_name, user_id=user_id, session_id=session_id
        )

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> None:
        await self._per_app[app_name].delete_artifact(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id, version=version
        )

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        return await self._per_app[app_name].list_artifact_versions(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
        )

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> ArtifactVersion | None:
        return await self._per_app[app_name].get_artifact_version(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id, version=version
        )

    async def close(self) -> None:
        await self._per_app.close()


def _sessions_in(folder: Path | None) -> BaseSessionService:
    return InMemorySessionService() if folder is None else SqliteSessionService(folder / "sessions.db")


def _artifacts_in(folder: Path | None) -> BaseArtifactService:
    return InMemoryArtifactService() if folder is None else FileArtifactService(folder / "artifacts")
