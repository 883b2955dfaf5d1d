"""A raw server of the older transport, HTTP with server-sent events, without the SDK: what it does, tests tell it."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Sse:
    """Its sessions, each with what is to be written to its stream, and what it has received."""

    def __init__(self, endpoint: str | None) -> None:
        self.url = ""
        self.endpoint = endpoint
        self.streams: dict[str, queue.Queue[str | None]] = {}
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    def received(self, method: str) -> list[Any]:
        return [body for _, _, body in self.requests if body and body.get("method") == method]

    def break_off(self) -> None:
        """End all streams."""
        for stream in self.streams.values():
            stream.put(None)
        self.streams.clear()


class Handler(BaseHTTPRequestHandler):
    sse: Sse

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        sse = self.sse
        sse.requests.append(("GET", self.named(), None))
        session = f"secret-session-{len(sse.requests)}"
        stream = sse.streams[session] = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.event("endpoint", sse.endpoint or f"/messages?sessionId={session}")
        while (data := stream.get()) is not None:
            self.event("message", data)

    def named(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def event(self, kind: str, data: str) -> None:
        self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.sse.requests.append(("POST", self.named(), body))
        session = parse_qs(urlsplit(self.path).query).get("sessionId", [""])[0]
        stream = self.sse.streams.get(session)
        self.send_response(202 if stream is not None else 404)
        self.end_headers()
        if stream is None or "id" not in body:
            return
        if body["method"] == "tools/call" and body["params"]["name"] == "hang_up":
            self.sse.break_off()
            return
        stream.put(json.dumps({"jsonrpc": "2.0", "id": body["id"], **answer(body)}))


def answer(body: dict[str, Any]) -> dict[str, Any]:
    method, given = body["method"], body.get("params") or {}
    if method == "initialize":
        info = {"name": "older", "version": "1"}
        served = {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        return {"result": served}
    if method == "tools/list":
        names = ("echo", "hang_up")
        return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": json.dumps(given["arguments"])}]}}
    return {"error": {"code": -32601, "message": "no such method"}}


@contextmanager
def sse_served(endpoint: str | None = None) -> Iterator[Sse]:
    """A server at an address of this machine; `endpoint` is where it says that messages go, by default to itself."""
    sse = Sse(endpoint)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"sse": sse}))
    server.daemon_threads = True
    sse.url = f"http://127.0.0.1:{server.server_address[1]}/sse"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield sse
    finally:
        sse.break_off()
        server.shutdown()
        server.server_close()
        thread.join()
