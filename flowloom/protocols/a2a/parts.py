"""Parts of messages, as the two sides have them: Google's here, the protocol's there."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types

from flowloom.events.json_data import without_halves
from flowloom.events.parts import text_part
from flowloom.protocols.a2a.sdk import Part, plain

KIND, LONG_RUNNING, THOUGHT = "adk_type", "adk_is_long_running", "adk_thought"
"""The keys of a part's metadata by which google-adk says what it is."""
CALL, RESPONSE = "function_call", "function_response"
"""What `KIND` says of a call, and of an answer to one."""
_WEB = ("https://", "http://")


def sent_part(part: types.Part) -> Part | None:
    """A part as it goes to another service: a text, a file, or the address of one. None for all else: thoughts, calls
    and their results are not for others."""
    if part.thought:
        return None
    if part.text:
        return said(part.text)
    blob, file = part.inline_data, part.file_data
    if blob is not None and blob.data:
        return Part(raw=blob.data, media_type=blob.mime_type or "", filename=blob.display_name or "")
    if file is not None and file.file_uri:
        return Part(url=file.file_uri, media_type=file.mime_type or "", filename=file.display_name or "")
    return None


def said(text: str) -> Part:
    """A text as a part; halves of surrogate pairs, which the protocol cannot hold, become U+FFFD."""
    return Part(text=without_halves(text))


def received_part(part: Part) -> types.Part | None:
    """A part that another service has sent. Its metadata is read for one thing: a part that is marked as a thought is
    one. None for an empty part, and for calls and results, which are the other agent's own."""
    marks: dict[str, Any] = plain(part.metadata) if part.HasField("metadata") else {}
    content = part.WhichOneof("content")
    if content == "text":
        return text_part(part.text, thought=True if marks.get(THOUGHT) is True else None) if part.text else None
    if content == "raw":
        blob = types.Blob(data=part.raw, mime_type=_type_of(part), display_name=part.filename or None)
        return types.Part(inline_data=blob)
    if content == "url":
        if not part.url.lower().startswith(_WEB):  # what a model's adapter reads may be no file of this machine
            return text_part(f"[a file at an address that is not of the web: {part.filename or part.media_type}]")
        file = types.FileData(file_uri=part.url, mime_type=_type_of(part), display_name=part.filename or None)
        return types.Part(file_data=file)
    if content == "data" and KIND not in marks:
        return text_part(json.dumps(plain(part.data), ensure_ascii=False))
    return None


def _type_of(part: Part) -> str:
    return part.media_type or "application/octet-stream"


def text_of(parts: Any) -> str:
    """The text of a message's parts, one after the other."""
    return "\n".join(part.text for part in parts if part.text)
