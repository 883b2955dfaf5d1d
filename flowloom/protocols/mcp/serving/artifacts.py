"""The files of conversations as resources `artifact://…` (protocols spec §2)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs, quote, unquote, urlsplit

from google.genai import types

from flowloom.errors import InputValidationError
from flowloom.events import Event
from flowloom.protocols.mcp.serving.conversations import Served, Where
from flowloom.protocols.mcp.serving.sdk import ReadResourceContents, mcp

_SCHEME = "artifact://"


def address_of(name: str, session_id: str | None = None) -> str:
    """The address of the file `name`; `session_id` where a connection does not say which conversation is meant."""
    told = f"{_SCHEME}{quote(name, safe='/')}"
    return told if session_id is None else f"{told}?session={quote(session_id)}"


def file_at(uri: str) -> tuple[str, str | None] | None:
    """The name of the file at an address, and the session that it names; None for an address that is no file's."""
    if not uri.startswith(_SCHEME):
        return None
    parts = urlsplit(uri)
    name = unquote(f"{parts.netloc}{parts.path}").lstrip("/")
    return (name, next(iter(parse_qs(parts.query).get("session", ())), None)) if name else None


async def resources_of(served: Served, where: Where) -> list[mcp.Resource]:
    """The files of a session, and of its user."""
    runner = served.runner
    files = runner.artifact_service
    if files is None:
        return []
    found: list[mcp.Resource] = []
    for name in await files.list_artifact_keys(app_name=runner.app_name, **where._asdict()):
        part = await files.load_artifact(app_name=runner.app_name, filename=name, **where._asdict())
        if part is not None:
            found.append(mcp.Resource(uri=address_of(name), name=name, mime_type=_kind(part)))
    return found


async def contents_of(served: Served, where: Where, name: str) -> ReadResourceContents | None:
    """What is in the file `name` of a session; None if there is none."""
    runner = served.runner
    files = runner.artifact_service
    if files is None:
        return None
    try:
        part = await files.load_artifact(app_name=runner.app_name, filename=name, **where._asdict())
    except InputValidationError:  # no file has such a name
        part = None
    if part is None:
        return None
    blob = part.inline_data
    data = (part.text or "") if blob is None else (blob.data or b"")
    if isinstance(data, bytes) and _kind(part).startswith(("text/", "application/json")):
        try:
            data = data.decode()
        except UnicodeDecodeError:
            pass
    return ReadResourceContents(content=data, mime_type=_kind(part))


async def links_of(served: Served, where: Where, events: Sequence[Event]) -> list[mcp.ContentBlock]:
    """Links to the files that the events of a run have saved."""
    saved = dict.fromkeys(name for event in events for name in event.actions.artifact_delta)
    if not saved or served.runner.artifact_service is None:
        return []
    return [mcp.ResourceLink(uri=address_of(name, where.session_id), name=name) for name in saved]


def _kind(part: types.Part) -> str:
    blob = part.inline_data
    return "text/plain" if blob is None else blob.mime_type or "application/octet-stream"
