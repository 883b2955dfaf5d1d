"""The artifact service protocol, and the rules that all services share (spec §20.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic import ValidationError

from flowloom.errors import InputValidationError
from flowloom.objects.service import Service

if TYPE_CHECKING:
    from flowloom.artifacts.version import ArtifactVersion

USER_PREFIX = "user:"
"""A file whose name starts so belongs to the user: all of the user's sessions share it."""


class BaseArtifactService(Service, ABC):
    """A store of versioned files.

    A file is named by `app_name`, `user_id`, `session_id` and `filename`. Its versions count from 0; a number is never
    given twice as long as the file exists. A name that starts with `user:` is shared by the user's sessions, and needs
    no `session_id`; any other name does. Every method raises `InputValidationError` for a name that is empty or
    holds a slash or backslash, and for an app, user or session that is missing.
    """

    @abstractmethod
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
        """Store `artifact` as the file's next version, and return that version.

        The part holds text, inline data or file data; otherwise `InputValidationError` is raised. A dict is read
        as a part in JSON form. `custom_metadata` is kept beside the version.
        """

    @abstractmethod
    async def load_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> types.Part | None:
        """The file's given `version` (counted from 0), or with None its latest; None if there is none."""

    @abstractmethod
    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """The names of the session's and the user's files, sorted; without a session, those of the user's only."""

    @abstractmethod
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> None:
        """Delete the given `version` (counted from 0), or with None the whole file. Deleting what does not exist is
        fine.
        """

    @abstractmethod
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """What is known about each of the file's versions, lowest first; empty if there is no such file."""

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The file's versions, lowest first; empty if there is no such file."""
        file = {"app_name": app_name, "user_id": user_id, "filename": filename}
        return [each.version for each in await self.list_artifact_versions(**file, session_id=session_id)]

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> ArtifactVersion | None:
        """What is known about the given `version` (counted from 0), or about the latest; None if there is none."""
        file = {"app_name": app_name, "user_id": user_id, "filename": filename}
        found = await self.list_artifact_versions(**file, session_id=session_id)
        return next((each for each in reversed(found) if version in (None, each.version)), None)


def owning_session(*, app_name: str, user_id: str, session_id: str | None, filename: str) -> str | None:
    """The session that a file belongs to, or None if it belongs to the user. Raises `InputValidationError`."""
    if not app_name or not user_id:
        raise InputValidationError(f"Artifact `{filename}` needs an app name and a user id; one of them is empty.")
    if not filename.removeprefix(USER_PREFIX).strip() or "/" in filename or "\\" in filename:
        raise InputValidationError(f"The artifact name `{filename}` is empty or holds a slash. Use a plain file name.")
    if filename.startswith(USER_PREFIX):
        return None
    if not session_id:
        raise InputValidationError(
            f"Artifact `{filename}` belongs to a session, but no session id is given. Give one, or name the file "
            f"`{USER_PREFIX}{filename}` to share it among the user's sessions."
        )
    return session_id


def private_part(artifact: types.Part | Mapping[str, Any]) -> types.Part:
    """An independent copy of what is to be stored; bytes are shared. Raises `InputValidationError`.

    A dict, or a part of another google-genai version, is read by its structure (decision 25).
    """
    try:
        part = types.Part.model_validate(artifact).model_copy(deep=True)
    except ValidationError as error:
        raise InputValidationError(f"The artifact cannot be read as a part: {error}") from error
    if part.text is None and part.inline_data is None and part.file_data is None:
        raise InputValidationError(
            "The artifact has nothing to store. Give a part with `text`, `inline_data` or `file_data`."
        )
    return part
