"""The words of ASGI: what an application is called with, and how one is refused (server spec §8)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from flowloom.errors import FlowloomError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class RejectedError(FlowloomError):
    """A request is turned away before an application sees it: with the HTTP `status`, the `code` that programs
    compare, and `headers`."""

    def __init__(self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


def header_of(scope: Mapping[str, Any], name: str) -> list[str]:
    """The values of a header of an ASGI scope, one for each line; `name` in lower case."""
    wanted = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def first_header(scope: Mapping[str, Any], name: str) -> str | None:
    """The first of the values of a header, where several stand in one line or in several; None if there is none."""
    values = header_of(scope, name)
    return values[0].partition(",")[0].strip() if values else None


def path_of(scope: Mapping[str, Any]) -> str:
    """The path of a request without the prefix that it is served below."""
    path, root = scope["path"], scope.get("root_path", "")
    below = path[len(root) :] if root and path.startswith(root) else path
    return below if below.startswith("/") else path


def start_of(error: RejectedError, body: bytes) -> Message:
    """The message that begins the answer to a request that was turned away."""
    headers = {"content-type": "application/json", "content-length": str(len(body))} | error.headers
    return {
        "type": "http.response.start",
        "status": error.status,
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
    }


def body_of(error: RejectedError) -> bytes:
    """`{"detail", "code"}`, as every problem is told."""
    return json.dumps({"detail": str(error), "code": error.code}, separators=(",", ":")).encode()


async def reject(scope: Scope, send: Send, error: RejectedError) -> None:
    """Answer a request with what it is turned away with; a WebSocket is closed before it is accepted: HTTP 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": str(error)[:120]})
        return
    body = body_of(error)
    await send(start_of(error, body))
    await send({"type": "http.response.body", "body": body})
