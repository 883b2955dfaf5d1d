"""Artifacts of a session and of its user: listed, read, saved and deleted (server spec §3, 15 to 21)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from flowloom.artifacts.service import USER_PREFIX
from flowloom.artifacts.version import ArtifactVersion
from flowloom.errors import InputValidationError
from flowloom.server.problems import ProblemError
from flowloom.server.served import admit, served_of
from flowloom.server.sessions import NO_EVENTS, session_of
from flowloom.server.wire import Body, Part, answer, json_bytes

_A = "/apps/{app_name}/users/{user_id}/sessions/{session_id}/artifacts"
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_DIGITS = 18
"""More than the number of any version has."""

router = APIRouter(tags=["artifacts"])


class NewArtifact(Body):
    """A file, to be kept as its next version."""

    filename: str
    artifact: Part
    custom_metadata: dict[str, Any] | None = None


@router.get(_A)
async def list_artifacts(request: Request, app_name: str, user_id: str, session_id: str) -> Response:
    """The names of the session's and the user's files, sorted."""
    admit(request, app_name, user_id)
    names = await served_of(request).artifacts.list_artifact_keys(
        app_name=app_name, user_id=user_id, session_id=session_id
    )
    return answer(json_bytes(names))


@router.post(_A)
async def save_artifact(request: Request, app_name: str, user_id: str, session_id: str, body: NewArtifact) -> Response:
    """Save the next version of a file, in a session that is there."""
    file = _file(request, app_name, user_id, session_id, body.filename)
    await served_of(request).check_app(app_name)
    await session_of(request, app_name, user_id, session_id, NO_EVENTS)
    store = served_of(request).artifacts
    try:
        version = await store.save_artifact(**file, artifact=body.artifact, custom_metadata=body.custom_metadata)
    except InputValidationError as error:
        raise ProblemError(400, "invalid_artifact", str(error)) from error
    saved = await store.get_artifact_version(**file, version=version)
    if saved is None:  # deleted meanwhile
        raise _not_found()
    return answer(_metadata(saved))


# the routes of versions come first: the name of a file takes any path


@router.get(_A + "/{name:path}/versions/metadata")
async def list_version_metadata(request: Request, app_name: str, user_id: str, session_id: str, name: str) -> Response:
    """What is known about all versions of a file."""
    file = _file(request, app_name, user_id, session_id, name)
    found = await served_of(request).artifacts.list_artifact_versions(**file)
    return answer(b"[" + b",".join(map(_metadata, found)) + b"]")


@router.get(_A + "/{name:path}/versions/{version}/metadata")
async def version_metadata(
    request: Request, app_name: str, user_id: str, session_id: str, name: str, version: str
) -> Response:
    """What is known about a version of a file."""
    file = _file(request, app_name, user_id, session_id, name)
    found = await served_of(request).artifacts.get_artifact_version(**file, version=_version(version))
    if found is None:
        raise ProblemError(404, "artifact_not_found", "Artifact version not found")
    return answer(_metadata(found))


@router.get(_A + "/{name:path}/versions/{version}")
async def load_version(
    request: Request, app_name: str, user_id: str, session_id: str, name: str, version: str
) -> Response:
    """A version of a file; `latest` for the newest."""
    return await _loaded(request, _file(request, app_name, user_id, session_id, name), _version(version))


@router.get(_A + "/{name:path}/versions")
async def list_versions(request: Request, app_name: str, user_id: str, session_id: str, name: str) -> list[int]:
    """The numbers of a file's versions."""
    file = _file(request, app_name, user_id, session_id, name)
    return await served_of(request).artifacts.list_versions(**file)


@router.get(_A + "/{name:path}")
async def load_artifact(
    request: Request,
    app_name: str,
    user_id: str,
    session_id: str,
    name: str,
    version: Annotated[int | None, Query()] = None,
) -> Response:
    """A file: its newest version, or the one of that number."""
    return await _loaded(request, _file(request, app_name, user_id, session_id, name), version)


@router.delete(_A + "/{name:path}")
async def delete_artifact(request: Request, app_name: str, user_id: str, session_id: str, name: str) -> Response:
    """Delete a file with all its versions, if there is one."""
    await served_of(request).artifacts.delete_artifact(**_file(request, app_name, user_id, session_id, name))
    return answer(b"null")


def _file(request: Request, app_name: str, user_id: str, session_id: str, name: str) -> dict[str, Any]:
    """The names of a file, those who ask being admitted. Raises `ProblemError` (400) for a name that is no file's."""
    admit(request, app_name, user_id)
    plain = name.removeprefix(USER_PREFIX)
    parts = re.split(r"[/\\]", plain)
    if not plain.strip() or "\0" in plain or ".." in parts or _ABSOLUTE.match(plain) or len(parts) > 1:
        raise ProblemError(400, "invalid_artifact_name", f"{name!r} is no name of a file. Use one without slashes.")
    return {"app_name": app_name, "user_id": user_id, "session_id": session_id, "filename": name}


def _version(text: str) -> int | None:
    """The number of a version; None for the newest. Raises `ProblemError`: 422 for what is neither, 404 for a number
    that no version has."""
    if text == "latest":
        return None
    if not _NUMBER.fullmatch(text):
        raise ProblemError(422, "invalid_version", "Invalid version ID")
    if text.startswith("-") or len(text) > _DIGITS:
        raise _not_found()
    return int(text)


async def _loaded(request: Request, file: dict[str, Any], version: int | None) -> Response:
    part = await served_of(request).artifacts.load_artifact(**file, version=version)
    if part is None:
        raise _not_found()
    return answer(json_bytes(part.model_dump(by_alias=True, exclude_none=True)))


def _not_found() -> ProblemError:
    return ProblemError(404, "artifact_not_found", "Artifact not found")


def _metadata(version: ArtifactVersion) -> bytes:
    return json_bytes(version.to_wire())
