"""Answers of OpenAI's in which its own tools ran, as the Responses API writes them, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

from models.wire_server import Reply, raw_stream

Json = dict[str, Any]

HELLO = "🍮 Voilà: "
CLAIM = "crème brûlée costs 9 €"
SAID = f"{HELLO}{CLAIM}."
SECOND = "Élan 🍮 opens at eight."
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "crème brûlée", "queries": ["crème brûlée", "café élan"]},
}
OPENED = {"id": "ws_2", "type": "web_search_call", "status": "completed", "action": {"type": "open_page", "url": "u"}}
REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "I should search."}],
    "encrypted_content": "c2VjcmV0",
}


def message(number: int, text: str, *annotations: Json) -> Json:
    piece = {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}
    return {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": [piece]}


def cited(text: str, words: str, url: str, title: str) -> Json:
    """OpenAI counts characters."""
    start = text.index(words)
    return {"type": "url_citation", "start_index": start, "end_index": start + len(words), "url": url, "title": title}


FIRST = message(1, SAID, cited(SAID, CLAIM, "https://elan.example/menu", "Menu"))
THEN = message(2, SECOND, cited(SECOND, "opens at eight", "https://elan.example/hours", "Hours"))
SEARCHED: list[Json] = [REASONING, SEARCH, OPENED, FIRST, THEN]
CODE = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "container_id": "cntr_1",
    "code": "print(42)",
    "outputs": [{"type": "logs", "logs": "42\n"}],
}
FAILED = {**CODE, "id": "ci_2", "status": "failed", "outputs": []}
LISTED: Json = {
    "id": "mcpl_1",
    "type": "mcp_list_tools",
    "server_label": "docs",
    "tools": [{"name": "erase", "input_schema": {}}],
}
APPROVAL = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "docs",
    "name": "erase",
    "arguments": '{"page": "é"}',
}
CALLED = {
    "id": "mcp_1",
    "type": "mcp_call",
    "status": "completed",
    "server_label": "docs",
    "name": "erase",
    "arguments": '{"page": "é"}',
    "output": "gone",
    "error": None,
    "approval_request_id": "mcpr_1",
}
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 30,
}


def response(*items: Json) -> Json:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "status": "completed"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, **rest, "output": list(items), "usage": USAGE}


def reply(*items: Json, stream: bool) -> Reply:
    """An answer of these items, at once or in pieces."""
    if not stream:
        return Reply([json.dumps(response(*items)).encode()])
    events: list[Json] = [{"type": "response.created", "response": {**response(), "status": "in_progress"}}]
    for index, item in enumerate(items):
        events += [{"output_index": index, **each} for each in _events(item)]
    events.append({"type": "response.completed", "response": response(*items)})
    return raw_stream([f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events])


def _events(item: Json) -> list[Json]:
    kind = item["type"]
    opened: Json = {**item}
    deltas: list[Json] = []
    if kind == "message":
        opened["content"] = []
        text = item["content"][0]["text"]
        deltas = [{"type": "response.output_text.delta", "delta": text[at : at + 5]} for at in range(0, len(text), 5)]
    elif kind == "reasoning":
        opened["summary"] = []
        deltas = [
            {"type": "response.reasoning_summary_text.delta", "summary_index": n, "delta": each["text"]}
            for n, each in enumerate(item["summary"])
        ]
    elif kind == "web_search_call":
        opened = {"id": item["id"], "type": kind, "status": "in_progress"}
        deltas = [{"type": "response.web_search_call.searching", "item_id": item["id"]}]
    added = {"type": "response.output_item.added", "item": opened}
    return [added, *deltas, {"type": "response.output_item.done", "item": item}]
