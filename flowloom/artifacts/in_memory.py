"""`InMemoryArtifactService`: artifacts that live as long as the process (spec §20.1)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from google.genai import types

from flowloom.artifacts.service import BaseArtifactService, owning_session, private_part
from flowloom.objects.on_use import ModuleOnUse

if TYPE_CHECKING:
    from flowloom.artifacts import version as about
    from flowloom.artifacts.version import ArtifactVersion
else:
    about = ModuleOnUse("flowloom.artifacts.version")

_Scope = tuple[str, str, str | None]
"""App, user, and session; no session for a user's own files."""
_Versions = list["tuple[types.Part, ArtifactVersion] | None"]
"""By number. A deleted version leaves None behind, so that its number is not given again."""


class InMemoryArtifactService(BaseArtifactService):
    """Keeps artifacts in dictionaries. Every operation is atomic within an event loop.

    Parts are copied in and out, so that no caller changes a stored version. A file that is deleted as a whole starts at
    version 0 again.
    """

    def __init__(self) -> None:
        self._files: dict[_Scope, dict[str, _Versions]] = {}

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
        versions = self._files.setdefault(scope, {}).setdefault(filename, [])
        data = part.inline_data or part.file_data
        info = about.ArtifactVersion(
            version=len(versions),
            canonical_uri=(part.file_data and part.file_data.file_uri) or _uri(scope, filename, len(versions)),
            custom_metadata=copy.deepcopy(custom_metadata or {}),
            mime_type="text/plain" if data is None else data.mime_type,
        )
        versions.append((part, info))
        return info.version

    async def load_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> types.Part | None:
        kept = filter(None, reversed(self._versions(app_name, user_id, session_id, filename)))
        return next((part.model_copy(deep=True) for part, info in kept if version in (None, info.version)), None)

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        scopes: set[_Scope] = {(app_name, user_id, None), (app_name, user_id, session_id)}
        return sorted(name for scope in scopes for name, held in self._files.get(scope, {}).items() if any(held))

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> None:
        versions = self._versions(app_name, user_id, session_id, filename)
        if version is None:
            self._files.get(_scope(app_name, user_id, session_id, filename), {}).pop(filename, None)
        elif 0 <= version < len(versions):
            versions[version] = None

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        kept = filter(None, self._versions(app_name, user_id, session_id, filename))
        return [info.model_copy(deep=True) for _, info in kept]

    def _versions(self, app_name: str, user_id: str, session_id: str | None, filename: str) -> _Versions:
        """The file's versions; a list that is not part of the store if there is no such file."""
        return self._files.get(_scope(app_name, user_id, session_id, filename), {}).get(filename, [])


def _scope(app_name: str, user_id: str, session_id: str | None, filename: str) -> _Scope:
    owner = owning_session(app_name=app_name, user_id=user_id, session_id=session_id, filename=filename)
    return app_name, user_id, owner


def _uri(scope: _Scope, filename: str, version: int) -> str:
    app_name, user_id, session_id = scope
    steps = ["apps", app_name, "users", user_id, *(["sessions", session_id] if session_id is not None else [])]
    steps += ["artifacts", filename, "versions", str(version)]
    return "memory://" + "/".join(quote(step, safe=":@", errors="surrogatepass") for step in steps)
