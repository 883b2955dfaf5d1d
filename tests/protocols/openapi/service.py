"""A REST service on loopback that says byte for byte what it received."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from flowloom import OpenAPIToolset

BOTH = pytest.mark.parametrize("service", ["3.0.3", "3.1.1"], indirect=True)
"""For tests that hold for documents of either version."""


@dataclass
class Received:
    """One request: its method, its target and its body as they came, and its headers in order."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass
class Reply:
    """What is answered: the body is sent as JSON if it is not bytes."""

    body: Any = field(default_factory=lambda: {"ok": True})
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Service:
    """The server. `replies` are given in turn, the last again and again; `answer` decides by the request instead."""

    def __init__(self) -> None:
        self.version = "3.1.0"
        """Of OpenAPI, in its documents."""
        self.received: list[Received] = []
        self.replies: list[Reply] = []
        self.answer: Callable[[Received], Reply] | None = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet

            def handle_one(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                received = Received(self.command, self.path, list(self.headers.items()), self.rfile.read(length))
                service.received.append(received)
                reply = service.reply_to(received)
                body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                given = {name.lower() for name in reply.headers}
                if "content-type" not in given and not isinstance(reply.body, bytes):
                    self.send_header("Content-Type", "application/json")
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if "content-length" not in given and reply.status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD" and reply.status != 204:
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_TRACE = handle_one

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def reply_to(self, received: Received) -> Reply:
        if self.answer is not None:
            return self.answer(received)
        if not self.replies:
            return Reply()
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Received:
        return self.received[-1]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def toolset(self, paths: Mapping[str, Any], **options: Any) -> OpenAPIToolset:
        """A toolset of a document with these paths, at this service."""
        return OpenAPIToolset(spec_dict=self.document(paths, **options.pop("document", {})), **ALLOWED | options)

    def document(self, paths: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        head = {"openapi": self.version, "info": {"title": "t", "version": "1"}, "servers": [{"url": self.url}]}
        return {**head, "paths": dict(paths), **more}


ALLOWED: dict[str, Any] = {"allow_private_network_access": True}


@contextmanager
def serving() -> Iterator[Service]:
    service = Service()
    try:
        yield service
    finally:
        service.close()


def get(*parameters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A path item with one GET operation."""
    return {"get": {"operationId": "op", "parameters": list(parameters), "responses": {}, **more}}


def post(content: Mapping[str, Any], required: bool = True, **more: Any) -> dict[str, Any]:
    """A path item with one POST operation that takes a body."""
    body = {"required": required, "content": dict(content)}
    return {"post": {"operationId": "op", "requestBody": body, "responses": {}, **more}}


async def call(toolset: OpenAPIToolset, name: str = "op", **args: Any) -> Any:
    """Call one tool outside of a run."""
    (tool,) = [each for each in await toolset.get_tools() if each.name == name]
    return await tool.run_async(args=args, tool_context=None)  # type: ignore[arg-type]
