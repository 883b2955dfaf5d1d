"""An MCP server without the SDK, over stdin and stdout: what it does, it is told in JSON as its argument.

Everything that it receives is appended to the file `journal`, a line each. Tools are named by what they do.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 3992).decode()
ANYTHING = {"type": "object"}
SCHEMAS: dict[str, Any] = {
    "echo": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        "required": ["text"],
    },
}


class Server:
    """One server; the methods named `tool_*` are its tools."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.journal = Path(told["journal"]) if "journal" in told else None
        self.lock, self.noting = threading.Lock(), threading.Lock()
        self.listings = 0
        self.asked: dict[Any, Any] = {}
        self.answers: dict[Any, threading.Event] = {}
        self.cancelled: set[Any] = set()
        self.number = 1000

    def note(self, what: dict[str, Any]) -> None:
        if self.journal is not None:
            line = json.dumps({"at": time.time(), "pid": os.getpid(), **what}) + "\n"
            with self.noting, self.journal.open("a", encoding="utf-8") as journal:
                journal.write(line)

    def send(self, message: dict[str, Any] | str) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        with self.lock:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def run(self) -> None:
        self.note({"started": True, "env": dict(os.environ), "cwd": os.getcwd()})
        if self.told.get("banner"):
            self.send(self.told["banner"])
        if self.told.get("stderr_bytes"):
            sys.stderr.write("x" * int(self.told["stderr_bytes"]) + "\n")
        if self.told.get("stderr"):
            sys.stderr.write(self.told["stderr"] + "\n")
            sys.stderr.flush()
        if self.told.get("exit_at_start") is not None:
            sys.exit(self.told["exit_at_start"])
        for line in sys.stdin:
            message = json.loads(line)
            self.note({"got": message})
            threading.Thread(target=self.take, args=(message,), daemon=True).start()
        time.sleep(self.told.get("linger", 0))

    def take(self, message: dict[str, Any]) -> None:
        method, given = message.get("method"), message.get("params") or {}
        if method is None:
            self.asked[message["id"]] = message.get("result", message.get("error"))
            self.answers[message["id"]].set()
            return
        if method == "notifications/cancelled":
            self.cancelled.add(given.get("requestId"))
        if "id" not in message:
            return
        if self.told.get("silent"):
            return
        handler = getattr(self, method.replace("/", "_"), None)
        if handler is None:
            self.send({"id": message["id"], "error": {"code": -32601, "message": f"no {method}"}})
            return
        result = handler(message["id"], given)
        if result is not None:
            key = "error" if "code" in result and "message" in result else "result"
            self.send({"id": message["id"], key: result})

    def initialize(self, _: Any, given: dict[str, Any]) -> dict[str, Any]:
        time.sleep(self.told.get("slow_start", 0))
        tools = {"listChanged": True} if self.told.get("list_changed") else {}
        return {
            "protocolVersion": given["protocolVersion"],
            "capabilities": {"tools": tools, "resources": self.told.get("resources", {}), "prompts": {}},
            "serverInfo": {"name": "raw", "version": "1"},
            "instructions": self.told.get("instructions", ""),
        }

    def tools(self) -> list[dict[str, Any]]:
        if "many" in self.told:
            return [{"name": f"t{number}", "inputSchema": ANYTHING} for number in range(self.told["many"])]
        if "tools" in self.told:
            return self.told["tools"]
        names = [name.removeprefix("tool_") for name in dir(self) if name.startswith("tool_")]
        return [{"name": name, "description": name, "inputSchema": SCHEMAS.get(name, ANYTHING)} for name in names]

    def tools_list(self, _: Any, given: dict[str, Any]) -> dict[str, Any]:
        self.listings += 1
        if self.told.get("listing_error"):
            return {"code": -32603, "message": self.told["listing_error"]}
        tools = self.tools()
        later = self.told.get("tools_later")
        if later is not None and (self.listings > 1 or self.told.get("changed")):
            tools = later
        size = self.told.get("page")
        if not size:
            return {"tools": tools}
        start = int(given.get("cursor") or 0)
        page: dict[str, Any] = {"tools": tools[start : start + size]}
        if self.told.get("endless"):
            return {
                "tools": tools[:1] if not start else [],
                "nextCursor": "1" if self.told["endless"] == "loop" else str(start + 1),
            }
        if start + size < len(tools):
            page["nextCursor"] = str(start + size)
        return page

    def tools_call(self, number: Any, given: dict[str, Any]) -> dict[str, Any] | None:
        tool = getattr(self, "tool_" + given["name"].replace(".", "_"), None)
        if tool is None:
            return {"code": -32602, "message": f"Unknown tool: {given['name']}"}
        return tool(number, given.get("arguments") or {}, (given.get("_meta") or {}).get("progressToken"))

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.number += 1
        number = self.number
        self.answers[number] = threading.Event()
        self.send({"id": number, "method": method, "params": params})
        self.answers[number].wait(self.told.get("patience", 20))
        return self.asked.get(number)

    # -- tools ------------------------------------------------------------------------------------

    def tool_echo(self, _: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        return said(json.dumps(args, ensure_ascii=False))

    def tool_slow(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any] | None:
        end = time.time() + float(args.get("seconds", 30))
        while time.time() < end:
            if number in self.cancelled:
                self.note({"stopped": number})
                return None
            time.sleep(0.01)
        return said("done")

    def tool_crash(self, *_: Any) -> None:
        sys.stderr.write("about to crash: out of cheese\n")
        sys.stderr.flush()
        os._exit(3)

    def tool_fail(self, *_: Any) -> dict[str, Any]:
        return {**said("no such file: a.txt"), "isError": True}

    def tool_fail_elsewhere(self, *_: Any) -> dict[str, Any]:
        resource = {"type": "resource", "resource": {"uri": "file:///log", "text": "disk full"}}
        return {"content": [resource], "isError": True}

    def tool_fail_as_data(self, *_: Any) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"code": None, "why": "größer"}, "isError": True}

    def tool_quote(self, *_: Any) -> dict[str, Any]:
        return {**said(f"not allowed with {os.environ.get('API_KEY')}"), "isError": True}

    def tool_refuse(self, *_: Any) -> dict[str, Any]:
        return {"code": -32000, "message": "quota exceeded"}

    def tool_garbage(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        for line in (
            "not json",
            "{",
            '{"jsonrpc": "2.0", "id": 99999, "result": {}}',
            "[]",
            '"text"',
            "\x00\xff",
            "null",
        ):
            self.send(line)
        return said("after garbage")

    def tool_half(self, number: Any, args: dict[str, Any], token: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": []}})[:-5])

    def tool_wrong_id(self, number: Any, args: dict[str, Any], token: Any) -> None:
        self.send({"id": 424242, "result": said("for another")})

    def tool_no_content(self, *_: Any) -> dict[str, Any]:
        return {"nothing": True}

    def tool_stderr(self, *_: Any) -> dict[str, Any]:
        sys.stderr.write("e" * 2_000_000 + "\n")
        sys.stderr.flush()
        return said("2 MB said")

    def tool_huge(self, _: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        return said("h" * int(args.get("bytes", 4_000_000)))

    def tool_texts(self, *_: Any) -> dict[str, Any]:
        return {"content": [text("one"), text("two")]}

    def tool_image(self, *_: Any) -> dict[str, Any]:
        return {"content": [text("a picture"), {"type": "image", "data": PNG, "mimeType": "image/png"}]}

    def tool_audio(self, *_: Any) -> dict[str, Any]:
        return {"content": [{"type": "audio", "data": PNG, "mimeType": "audio/wav"}]}

    def tool_resources(self, *_: Any) -> dict[str, Any]:
        return {
            "content": [
                {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": PNG}},
                {"type": "resource_link", "uri": "https://host/b", "name": "b", "mimeType": "text/html"},
            ]
        }

    def tool_structured(self, *_: Any) -> dict[str, Any]:
        data = {"temperature": 21, "unit": "C"}
        return {"content": [text(json.dumps(data))], "structuredContent": data, "_meta": {"trace": "t1"}}

    def tool_structured_and_more(self, *_: Any) -> dict[str, Any]:
        return {"content": [text("It is warm.")], "structuredContent": {"temperature": 21}}

    def tool_progress(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        count = int(args.get("count", 3))
        for done in range(count):
            told = {"progressToken": token, "progress": done + 1, "total": count, "message": f"step {done + 1}"}
            self.send({"method": "notifications/progress", "params": told})
            time.sleep(float(args.get("pause", 0)))
        return said("progressed")

    def tool_change(self, _: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        self.told["changed"] = True
        for _ in range(int(args.get("times", 1))):
            self.send({"method": "notifications/tools/list_changed"})
        return said("changed")

    def tool_elicit(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "size": {"type": "string", "default": "M"}},
            "required": ["name", "size"],
        }
        answer = self.ask("elicitation/create", {"message": "Whose shirt?", "requestedSchema": schema})
        return said(json.dumps(answer, sort_keys=True))

    def tool_ask(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        """Ask what the test says."""
        return said(json.dumps(self.ask(args["method"], args["params"]), sort_keys=True))

    def tool_elicit_twice(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
        first = self.ask("elicitation/create", {"message": "First?", "requestedSchema": schema})
        second = self.ask("elicitation/create", {"message": "Second?", "requestedSchema": schema})
        return said(f"{first['content']['value']} then {second['content']['value']}")

    def tool_elicit_url(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        params = {"mode": "url", "message": "Sign in", "url": "https://login.example/x", "elicitationId": "e1"}
        return said(json.dumps(self.ask("elicitation/create", params), sort_keys=True))

    def tool_sample(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        params = {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Say a word."}}],
            "maxTokens": 20,
            "systemPrompt": "Be brief.",
        }
        return said(json.dumps(self.ask("sampling/createMessage", params), sort_keys=True))

    def tool_elicit_sample(self, number: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        """Ask a person, and then the model."""
        self.tool_elicit(number, args, token)
        return self.tool_sample(number, args, token)

    def tool_roots(self, *_: Any) -> dict[str, Any]:
        return said(json.dumps(self.ask("roots/list", {})))

    # -- resources and prompts ---------------------------------------------------------------------

    def resources_list(self, *_: Any) -> dict[str, Any]:
        return {"resources": [{"uri": "file:///notes.txt", "name": "notes", "mimeType": "text/plain"}]}

    def resources_templates_list(self, *_: Any) -> dict[str, Any]:
        return {"resourceTemplates": [{"uriTemplate": "file:///{name}.txt", "name": "any"}]}

    def resources_read(self, _: Any, given: dict[str, Any]) -> dict[str, Any]:
        return {"contents": [{"uri": given["uri"], "mimeType": "text/plain", "text": f"text of {given['uri']}"}]}

    def resources_subscribe(self, *_: Any) -> dict[str, Any]:
        return {}

    def tool_update(self, _: Any, args: dict[str, Any], token: Any) -> dict[str, Any]:
        self.send({"method": "notifications/resources/updated", "params": {"uri": args["uri"]}})
        return said("updated")

    def prompts_list(self, *_: Any) -> dict[str, Any]:
        arguments = [{"name": "city", "required": True}, {"name": "mood"}]
        return {"prompts": [{"name": "guide", "arguments": arguments}]}

    def prompts_get(self, _: Any, given: dict[str, Any]) -> dict[str, Any]:
        words = f"You guide through {given['arguments'].get('city')}, {given['arguments'].get('mood', 'calm')}."
        contents = [text(words), *self.told.get("prompt_with", [])]
        return {"messages": [{"role": "user", "content": each} for each in contents]}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def said(value: str) -> dict[str, Any]:
    return {"content": [text(value)]}


if __name__ == "__main__":
    Server(json.loads(sys.argv[1])).run()
