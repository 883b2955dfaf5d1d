"""What runs and tools give, as the result of a call: text, data, images, audio, resources (protocols spec §2)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, cast
from urllib.parse import quote

from google.genai import types
from pydantic import BaseModel

from flowloom.errors import ToolArgumentsError
from flowloom.events import Event
from flowloom.events.json_data import as_json, without_halves
from flowloom.protocols.mcp.serving.callers import failure
from flowloom.protocols.mcp.serving.sdk import mcp
from flowloom.protocols.results import size
from flowloom.tools.output import OutputSchema

_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "image/svg+xml")
_FILES = (types.Part, types.Blob, types.Content, types.FunctionResponsePart)


def result_of_tool(
    answer: types.FunctionResponse, raw: Any, schema: OutputSchema | None, name: str
) -> mcp.CallToolResult:
    """The result of a call that a tool has answered; `raw` is what it returned, as far as it is known.

    `schema` is what its data has to be like, if it promised that. `name` is the tool's.
    """
    response = answer.response or {}
    error = response.get("error")
    if error:
        return failure(error if isinstance(error, str) else json.dumps(error, ensure_ascii=False))
    files = blocks_of(raw)
    whole = isinstance(raw, Mapping | BaseModel) or is_dataclass(raw) or (schema is not None and schema.is_object)
    value = response if whole or set(response) != {"result"} else response["result"]
    data = None
    if schema is not None:
        try:
            schema.read(value)
        except ToolArgumentsError as misfit:
            return failure(f"The result of `{name}` is not of the form that it promises. {misfit}")
        data = value if schema.is_object else {"result": value}
    elif isinstance(value, dict):
        data = cast(dict[str, Any], value)
    told = [mcp.TextContent(text=text_of(value))] if files is None or isinstance(raw, Mapping) else []
    beside = [block for part in answer.parts or () for block in part_blocks(part)]
    return mcp.CallToolResult(content=[*told, *(files or ()), *beside], structured_content=data)


def text_of(value: Any) -> str:
    """A result as text: JSON, unless it is one."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def blocks_of(value: Any) -> list[mcp.ContentBlock] | None:
    """The blocks of a result with files in it; None for one without."""
    found: list[mcp.ContentBlock] = []
    if not _has_files(value):
        return None
    if isinstance(value, Mapping):  # its data is told beside them
        _collect_files(value, found)
        return found
    for each in cast(Sequence[Any], value) if isinstance(value, list | tuple) else (value,):
        found += _blocks_of_one(each)
    return found


def _blocks_of_one(value: Any) -> list[mcp.ContentBlock]:
    match value:
        case types.Content():
            return [block for part in value.parts or () for block in _blocks_of_one(part)]
        case types.Blob():
            return [_file(value.data or b"", value.mime_type, value.display_name)]
        case types.Part() | types.FunctionResponsePart():
            return part_blocks(value)
        case _:
            return [mcp.TextContent(text=without_halves(text_of(as_json(_marked(value)))))]


def part_blocks(part: types.Part | types.FunctionResponsePart) -> list[mcp.ContentBlock]:
    """What a client is shown of a part; nothing of a thought, or of a call."""
    text = getattr(part, "text", None)
    if text and not getattr(part, "thought", None):
        return [mcp.TextContent(text=without_halves(text))]
    if part.inline_data is not None and part.inline_data.data is not None:
        return [_file(part.inline_data.data, part.inline_data.mime_type, part.inline_data.display_name)]
    if part.file_data is not None and part.file_data.file_uri:
        uri = part.file_data.file_uri
        name = part.file_data.display_name or uri.rpartition("/")[2] or uri
        return [mcp.ResourceLink(uri=uri, name=name, mime_type=part.file_data.mime_type)]
    return []


def _file(data: bytes, mime_type: str | None, address: str | None) -> mcp.ContentBlock:
    """A file as a block: a picture, a sound, or a resource at the address that is its name."""
    kind = mime_type or "application/octet-stream"
    text = base64.b64encode(data).decode()
    if kind.startswith("image/") and kind not in _TEXTS:
        return mcp.ImageContent(data=text, mime_type=kind)
    if kind.startswith("audio/"):
        return mcp.AudioContent(data=text, mime_type=kind)
    uri = address or "answer"
    uri = uri if "://" in uri else f"file:///{quote(uri.lstrip('/'))}"
    return mcp.EmbeddedResource(resource=resource_of(uri, data, kind))


def resource_of(uri: str, data: bytes, kind: str) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    """The contents of a resource: text if it is of a kind that is, else bytes."""
    if kind.startswith(_TEXTS):
        try:
            return mcp.TextResourceContents(uri=uri, mime_type=kind, text=data.decode())
        except UnicodeDecodeError:
            pass
    return mcp.BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(data).decode())


def without_files(value: Any) -> Any:
    """A result with a mark in the place of each file, if it has any; else None."""
    return _marked(value) if _has_files(value) else None


def _has_files(value: Any) -> bool:
    if isinstance(value, _FILES):
        return True
    if isinstance(value, Mapping):
        return any(map(_has_files, cast(Mapping[Any, Any], value).values()))
    return isinstance(value, list | tuple) and any(map(_has_files, cast(Sequence[Any], value)))


def _marked(value: Any) -> Any:
    if isinstance(value, _FILES):
        return " ".join(_mark(block) for block in _blocks_of_one(value))
    if isinstance(value, Mapping):
        return {key: _marked(each) for key, each in cast(Mapping[Any, Any], value).items()}
    return [_marked(each) for each in cast(Sequence[Any], value)] if isinstance(value, list | tuple) else value


def _mark(block: mcp.ContentBlock) -> str:
    match block:
        case mcp.TextContent():
            return block.text
        case mcp.ImageContent() | mcp.AudioContent():
            return f"[{block.mime_type}, {size(len(base64.b64decode(block.data)))}]"
        case mcp.EmbeddedResource():
            return f"[{block.resource.uri}]"
        case mcp.ResourceLink():
            return f"[{block.uri}]"


def _collect_files(value: Any, found: list[mcp.ContentBlock]) -> None:
    if isinstance(value, _FILES):
        found += _blocks_of_one(value)
    elif isinstance(value, Mapping):
        for each in cast(Mapping[Any, Any], value).values():
            _collect_files(each, found)
    elif isinstance(value, list | tuple):
        for each in cast(Sequence[Any], value):
            _collect_files(each, found)


def answer_blocks(text: str, events: Sequence[Event]) -> list[mcp.ContentBlock]:
    """The final answer of a run: its `text`, and the files of its last message, in their order."""
    last = next((each for each in reversed(events) if each.is_final_response() and each.content), None)
    found: list[mcp.ContentBlock] = []
    for part in (last.content.parts if last is not None and last.content is not None else None) or ():
        for block in part_blocks(part):
            before = found[-1] if found else None
            if isinstance(block, mcp.TextContent) and isinstance(before, mcp.TextContent):
                before.text += block.text
            else:
                found.append(block)
    if not any(isinstance(block, mcp.TextContent) for block in found) and (text or not found):
        found.insert(0, mcp.TextContent(text=text))
    return found
