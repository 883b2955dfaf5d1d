"""What a server's result becomes: data and texts for the model, files beside them (protocols spec §1, Mapping)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, cast

import mcp_types as mcp

from flowloom.context import Context
from flowloom.protocols.files import file_told
from flowloom.protocols.results import within_limit

PROTOCOLS_OWN = "io.modelcontextprotocol/"
"""How names of `_meta` begin that tell of server and connection, and not of a result."""


async def result_of(answer: mcp.CallToolResult, context: Context, tool: str, limit: int) -> Any:
    """What the model is given of an `answer`: data, or `{"result": text}`, of at most `limit` bytes of text.

    Files come beside it, in `context`, which is the call's; those that the model cannot take are kept as artifacts,
    named after the `tool`. `_meta` goes to the metadata of the event.
    """
    told = {name: value for name, value in (answer.meta or {}).items() if not name.startswith(PROTOCOLS_OWN)}
    if told:
        context.metadata = {**(context.metadata or {}), **told}
    texts = [await _told(block, context, tool) for block in answer.content]
    text = "\n\n".join(texts)
    if "structured_content" not in answer.model_fields_set or answer.structured_content is None:
        return await within_limit({"result": text}, limit, context, tool)
    data = answer.structured_content
    if not texts or _say_the_same(texts, data):
        return await within_limit(data if isinstance(data, dict) else {"result": data}, limit, context, tool)
    return await within_limit({"result": data, "text": text}, limit, context, tool)


def error_of(answer: mcp.CallToolResult) -> str:
    """The words of an answer that says that the tool failed."""
    texts = list(filter(None, map(words_of, answer.content)))
    if texts:
        return "\n\n".join(texts)
    data = answer.structured_content
    return json.dumps(data, ensure_ascii=False) if data else "The tool failed and does not say why."


def words_of(block: mcp.ContentBlock) -> str | None:
    """What one block says in words: a text, also as a resource, or a link; None for a file."""
    match block:
        case mcp.TextContent():
            return block.text
        case mcp.EmbeddedResource(resource=mcp.TextResourceContents() as resource):
            return _text_of(resource)
        case mcp.ResourceLink():
            kind = f" ({block.mime_type})" if block.mime_type else ""
            return f"[link to {block.title or block.name}{kind}: {block.uri}]"
        case _:
            return None


async def _told(block: mcp.ContentBlock, context: Context, tool: str) -> str:
    """What one block says; a file is put beside the result, and its type and size are said."""
    match block:
        case mcp.ImageContent() | mcp.AudioContent():
            return await _file(block.data, block.mime_type, None, context, tool)
        case mcp.EmbeddedResource():
            return await resource_told(block.resource, context, tool)
        case _:
            return words_of(block) or ""


async def resource_told(resource: Any, context: Context, tool: str) -> str:
    """What a resource says: its address and its text, or its file as that of an image. `tool` names kept files."""
    if isinstance(resource, mcp.TextResourceContents):
        return _text_of(resource)
    kind = resource.mime_type or "application/octet-stream"
    return await _file(resource.blob, kind, str(resource.uri), context, tool)


def _text_of(resource: mcp.TextResourceContents) -> str:
    return f"[{resource.uri}]\n{resource.text}"


async def _file(data: str, mime_type: str, address: str | None, context: Context, tool: str) -> str:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{mime_type} that is not base64: left out]"
    return await file_told(content, mime_type, context, tool, address)


def _say_the_same(texts: Sequence[str], data: Any) -> bool:
    """Whether texts only repeat structured data, in one of the forms in which servers write it."""
    held = cast(dict[str, Any], data) if isinstance(data, dict) else {}
    bare = cast(Any, held["result"] if [*held] == ["result"] else data)
    read = [_read(text) for text in texts]
    if len(texts) == 1 and (read[0] in (data, bare) or texts[0] in (bare, str(bare))):
        return True
    return read == bare or list(texts) == bare


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
