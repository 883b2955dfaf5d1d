"""Answers of Anthropic's in which its own tools ran, as the Messages API writes them, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

from models.wire_server import Reply, raw_stream
from providers.anthropic_wire import OWN_SIGNATURE

Json = dict[str, Any]

HELLO = "Let me look: 🍮 "
CLAIM = "crème brûlée costs 9 €"
REST = ". It is at the Café Élan"
USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "crème brûlée 🍮"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://elan.example/menu",
            "title": "Menu",
            "encrypted_content": "RW5jcnlwdGVk",
            "page_age": "3 days",
        }
    ],
    "caller": {"type": "direct"},
}
CITED = {
    "type": "web_search_result_location",
    "cited_text": "Crème brûlée 9",
    "url": "https://elan.example/menu",
    "title": "Menu",
    "encrypted_index": "SW5kZXg=",
}
THOUGHT = {"type": "thinking", "thinking": "I should search.", "signature": OWN_SIGNATURE}
SEARCHED: list[Json] = [
    THOUGHT,
    {"type": "text", "text": HELLO},
    USE,
    FOUND,
    {"type": "text", "text": CLAIM, "citations": [CITED]},
    {"type": "text", "text": REST, "citations": [{**CITED, "url": "https://elan.example/", "title": "Élan"}, CITED]},
    {"type": "text", "text": "."},
]
RUN = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "bash_code_execution", "input": {"command": "echo 42"}}
RAN: Json = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {
        "type": "bash_code_execution_result",
        "stdout": "42\n",
        "stderr": "",
        "return_code": 0,
        "content": [{"type": "bash_code_execution_output", "file_id": "file_1"}],
    },
}
FAILED = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
}
USAGE = {
    "input_tokens": 10,
    "output_tokens": 20,
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
}


def message(*blocks: Json, stop: str = "end_turn", **fields: Any) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1"}
    return {**head, "content": list(blocks), "stop_reason": stop, "stop_sequence": None, "usage": USAGE, **fields}


def reply(*blocks: Json, stream: bool, stop: str = "end_turn", **fields: Any) -> Reply:
    """An answer of these blocks, at once or in pieces."""
    whole = message(*blocks, stop=stop, **fields)
    if not stream:
        return Reply([json.dumps(whole).encode()])
    events: list[Json] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for index, block in enumerate(blocks):
        opened, deltas = _opened(block)
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, **fields}, "usage": USAGE})
    events.append({"type": "message_stop"})
    return raw_stream([f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events])


def _opened(block: Json) -> tuple[Json, list[Json]]:
    kind = block["type"]
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
        return {"type": kind, "text": ""}, [
            *cited,
            *({"type": "text_delta", "text": each} for each in cut(block["text"])),
        ]
    if kind == "thinking":
        thought = [{"type": "thinking_delta", "thinking": each} for each in cut(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*thought, signature]
    if "input" in block:
        pieces = ["", *cut(json.dumps(block["input"], ensure_ascii=False))]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": each} for each in pieces]
    return block, []


def cut(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]
