"""Items of OpenAI's Responses API that are given back as they came: what OpenAI ran, and messages with sources."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, cast

from google.genai import types

from flowloom.events.parts import call_part
from flowloom.models.partial_args import arguments_of
from flowloom.models.server_parts import made_file, server_call, server_result
from flowloom.models.signatures import OPENAI_ITEM, OPENAI_MESSAGE, signature_of, signed
from flowloom.providers.sdk_answers import Json, minted_id, object_of, objects_of, shown_result, text_in
from flowloom.providers.sdk_request import json_text

APPROVAL = "mcp_approval_request"
_OURS = ("message", "function_call", "reasoning")
_NAMES = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_execution",
    "image_generation_call": "image_generation",
    "mcp_list_tools": "list_tools",
}
_ARGUMENTS = ("action", "queries", "code", "revised_prompt")
_RESULTS = ("results", "outputs", "output", "tools", "error")


def is_server_item(item: Json) -> bool:
    """Whether an item tells of something that OpenAI did on its own."""
    return bool(item.get("type")) and item.get("type") not in _OURS and item.get("type") != APPROVAL


def item_name(item: Json) -> str:
    """What the tool behind an item is called."""
    kind = text_in(item, "type")
    return _NAMES.get(kind) or text_in(item, "name") or kind.removesuffix("_call")


def server_parts(item: Json) -> Iterator[types.Part]:
    """An item as parts: the call, and what came of it, which holds the item itself."""
    call_id, name = text_in(item, "id") or minted_id(), item_name(item)
    yield server_call(call_id, name, _arguments(item), signed(OPENAI_ITEM, ""))  # whose it is; the item comes once
    yield server_result(call_id, name, _result(item), signed(OPENAI_ITEM, json_text(item)))
    if item.get("type") == "image_generation_call" and isinstance(item.get("result"), str):
        kind = text_in(item, "output_format") or "png"
        mime_type = "image/svg+xml" if kind == "svg" else f"image/{kind}"
        yield made_file(f"{call_id}.{kind}", name, mime_type, base64.b64decode(item["result"]))


def _arguments(item: Json) -> Json:
    if "arguments" in item:
        return arguments_of(item["arguments"])
    found = {name: shown_result(item[name]) for name in _ARGUMENTS if item.get(name) is not None}
    action = object_of(found.pop("action", None))
    return {**found, **{name: value for name, value in action.items() if name not in ("type", "sources")}}


def _result(item: Json) -> Json:
    found = {name: shown_result(item[name]) for name in _RESULTS if item.get(name) is not None}
    status = item.get("status")
    if status in ("failed", "incomplete") and "error" not in found:
        found["error"] = f"The tool is {status}."
    return {"status": status, **found} if status else found


def searches_of(item: Json) -> list[str]:
    """What an item searched the web for."""
    action = object_of(item.get("action"))
    if item.get("type") != "web_search_call" or action.get("type") != "search":
        return []
    queries: Any = action.get("queries") or [action.get("query")]
    return [str(query) for query in cast(list[Any], queries) if query]


def approval_part(item: Json) -> types.Part:
    """A call of ours for a call that a remote MCP server's tool needs a person's approval for."""
    args = {"tool": item.get("name"), "arguments": arguments_of(item.get("arguments"))}
    part = call_part(text_in(item, "id") or minted_id(), text_in(item, "server_label"), args)
    part.thought_signature = signed(OPENAI_ITEM, json_text(item))
    return part


def message_signature(item: Json) -> bytes:
    """A message without its words, of which it says how many characters stand where."""
    pieces: list[Json] = []
    for piece in objects_of(item.get("content")):
        field = "refusal" if piece.get("type") == "refusal" else "text"
        pieces.append({**piece, field: len(piece.get(field) or "")})
    return signed(OPENAI_MESSAGE, json_text({**item, "content": pieces}))


def kept_item(part: types.Part) -> Json | None:
    """The item in a part, as it came; None for a part that holds none, or words that were changed since."""
    whole = signature_of(OPENAI_ITEM, part.thought_signature)
    if whole is not None:
        return json.loads(whole) if whole else None
    message = signature_of(OPENAI_MESSAGE, part.thought_signature)
    if message is None or part.text is None:
        return None
    item: Json = json.loads(message)
    at = 0
    for piece in item["content"]:
        field = "refusal" if piece["type"] == "refusal" else "text"
        length: int = piece[field]
        piece[field] = part.text[at : at + length]
        at += length
    return item if at == len(part.text) else None
