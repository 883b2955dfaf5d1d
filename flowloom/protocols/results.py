"""How much of a result a model is given (protocols spec §0, Limits).

`within_limit` is called with what a tool is about to return. What is too long is cut, with a note, and the whole is
kept as an artifact of the session, which `load_artifacts` shows.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

from google.genai import types

from flowloom.context import Context

MAX_RESULT_BYTES = 262_144
"""How many bytes of text a model is given of one result by default (256 KiB)."""


async def within_limit(result: Any, limit: int, context: Context, name: str) -> Any:
    """`result`, if its text has at most `limit` bytes; else `{"result": …}` with the beginning and a note.

    A result may be text, or JSON data: `{"result": text}` counts as its text. `context` is that of the call, whose
    session keeps the whole; `name` is the tool's, after which the file is named.
    """
    text, is_text = _text_of(result)
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return result
    begin = data[:limit].decode("utf-8", "ignore")
    file = await _kept(data, "text/plain" if is_text else "application/json", context, name)
    where = f"all of it is in the file `{file}`" if file else "the rest is not kept, for the runner keeps no files"
    return {"result": f"{begin}\n[cut after {size(limit)} of {size(len(data))}: {where}]"}


async def _kept(data: bytes, mime_type: str, context: Context, name: str) -> str | None:
    """Save a whole result; its file's name, or None without an artifact service."""
    if context.invocation_context.artifact_service is None:
        return None
    told = hashlib.sha256(data).hexdigest()[:8]
    file = f"{name}_{told}.{'txt' if mime_type == 'text/plain' else 'json'}"
    await context.save_artifact(file, types.Part(inline_data=types.Blob(data=data, mime_type=mime_type)))
    return file


def _text_of(result: Any) -> tuple[str, bool]:
    """What a result says as text, and whether it is a text."""
    if isinstance(result, dict):
        held = cast(dict[str, Any], result)
        result = held["result"] if [*held] == ["result"] else held
    if isinstance(result, str):
        return result, True
    return json.dumps(result, ensure_ascii=False, default=str), False


def size(count: int) -> str:
    """A number of bytes for people: `12 B`, `4 kB`, `2.5 MB`."""
    if count < 1000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{round(count / 1000)} kB"
    return f"{count / 1_000_000:.1f} MB"
