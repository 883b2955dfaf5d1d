"""`InMemoryArtifactService`: artifacts that live as long as the process (spec §20.1)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from google.genai import types

from flowloom.artifacts.service import ArtifactVersion, BaseArtifactService, owning_session, private_part

_Scope = tuple[str, str, str | None]
"""App, user, and session; no session for a user's own files."""


@dataclass(slots=True)
class _Stored:
    part: types.Part
    info: ArtifactVersion


@dataclass(slots=True)
class _File:
    versions: dict[int, _Stored] = field(default_factory=dict[int, _Stored])
    """By version, lowest first."""
    next_version: int = 0
    """Kept apart from `versions`, so that the number of a deleted version is not given again."""

    def find(self, version: int | None) -> _Stored | None:
        if version is not None:
            return self.versions.get(version)
        return next(reversed(self.versions.values()), None)


class InMemoryArtifactService(BaseArtifactService):
    """Keeps artifacts in dictionaries. Every operation is atomic within an event loop.

    Parts are copied in and out, so that nobody changes a stored version. A file that is deleted as a whole is
    forgotten: saved again, it starts at version 0.
    """

    def __init__(self) -> None:
        self._files: dict[_Scope, dict[str, _File]] = {}

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
        scope = _scope(app_name, user_id, session_id, filename)
        part = private_part(artifact)
        file = self._files.setdefault(scope, {}).setdefault(filename, _File())
        version = file.next_version
        info = ArtifactVersion(
            version=version,
            canonical_uri=_uri(part, scope, filename, version),
            custom_metadata=copy.deepcopy(custom_metadata or {}),
            mime_type=_mime_type(part),
        )
        file.versions[version] = _Stored(part, info)
        file.next_version = version + 1
        return version

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        stored = self._file(app_name, user_id, session_id, filename).find(version)
        return None if stored is None else stored.part.model_copy(deep=True)

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        scopes: set[_Scope] = {(app_name, user_id, None), (app_name, user_id, session_id)}
        return sorted(name for scope in scopes for name, file in self._files.get(scope, {}).items() if file.versions)

    async def delete_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> None:
        if version is not None:
            self._file(app_name, user_id, session_id, filename).versions.pop(version, None)
        else:
            self._files.get(_scope(app_name, user_id, session_id, filename), {}).pop(filename, None)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        return list(self._file(app_name, user_id, session_id, filename).versions)

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        file = self._file(app_name, user_id, session_id, filename)
        return [stored.info.model_copy(deep=True) for stored in file.versions.values()]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        stored = self._file(app_name, user_id, session_id, filename).find(version)
        return None if stored is None else stored.info.model_copy(deep=True)

    def _file(self, app_name: str, user_id: str, session_id: str | None, filename: str) -> _File:
        """The file, or an empty one that is not part of the store."""
        return self._files.get(_scope(app_name, user_id, session_id, filename), {}).get(filename) or _File()


def _scope(app_name: str, user_id: str, session_id: str | None, filename: str) -> _Scope:
    owner = owning_session(app_name=app_name, user_id=user_id, session_id=session_id, filename=filename)
    return app_name, user_id, owner


def _uri(part: types.Part, scope: _Scope, filename: str, version: int) -> str:
    if part.file_data is not None and part.file_data.file_uri:
        return part.file_data.file_uri
    app_name, user_id, session_id = scope
    steps = ["apps", app_name, "users", user_id]
    if session_id is not None:
        steps += ["sessions", session_id]
    steps += ["artifacts", filename, "versions", str(version)]
    return "memory://" + "/".join(quote(step, safe=":@") for step in steps)


def _mime_type(part: types.Part) -> str | None:
    data = part.inline_data or part.file_data
    return "text/plain" if data is None else data.mime_type
