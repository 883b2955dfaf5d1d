"""Files that the tools of a model's provider have made, as artifacts (protocols spec §8)."""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncGenerator
from mimetypes import guess_extension
from pathlib import PurePosixPath

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.events.event import Event
from flowloom.events.json_data import as_json
from flowloom.events.response import LlmResponse
from flowloom.events.wire import replace
from flowloom.models.server_parts import is_server_run

_log = logging.getLogger("flowloom.tools")


async def save_made(
    ctx: InvocationContext, response: LlmResponse, made: list[types.Part]
) -> AsyncGenerator[Event, None]:
    """Save the files `made` in a `response`; what the provider does not want back is in its content no more.

    `ctx` is the place of the agent whose answer it is. A file that cannot be saved stays where it is.
    """
    context, content = Context(ctx), response.content or types.Content()
    kept = content.parts or []
    for part in made:
        blob = part.inline_data
        if blob is None or blob.data is None:
            continue
        name = _name_of(blob, blob.data)
        try:
            await context.save_artifact(name, types.Part.from_bytes(data=blob.data, mime_type=blob.mime_type or _BYTES))
        except Exception as error:
            _log.warning("File `%s`, made by a tool of the provider, was not saved: %s", name, error)
            continue
        if is_server_run(part):
            kept = [each for each in kept if each is not part]
    response.content = replace(content, parts=kept)  # the content is the model's own
    yield ctx.new_event({"actions": context.collect_actions()})


_BYTES = "application/octet-stream"


def _name_of(blob: types.Blob, data: bytes) -> str:
    """The name of a file; without one of its own, one that tells different contents apart."""
    name = PurePosixPath((blob.display_name or "").replace("\\", "/")).name
    if name and name != "..":
        return as_json(name)
    return f"file_{zlib.crc32(data):08x}{guess_extension(blob.mime_type or '') or ''}"
