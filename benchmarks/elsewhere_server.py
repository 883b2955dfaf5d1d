"""A server of one tool, for the costs of calls: what it does itself is next to nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The response to a request."""
    method, given = message["method"], message.get("params") or {}
    if method == "initialize":
        served = {"tools": {"listChanged": True}}
        info = {"name": "add", "version": "1"}
        return {"result": {"protocolVersion": given["protocolVersion"], "capabilities": served, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": "add", "description": "Add two numbers.", "inputSchema": SCHEMA}]}}
    if method == "tools/call":
        text = str(given["arguments"]["a"] + given["arguments"]["b"])
        return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "no such method"}}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request)}) + "\n")
        sys.stdout.flush()
