"""Requests that are nearly right: valid ones, of which something has been made wrong, as bytes on a socket."""

from __future__ import annotations

import json
import random
import socket
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

S = "/apps/desk/users/ann/sessions"
MESSAGE = {"role": "user", "parts": [{"text": "hi"}]}
RUN = {"appName": "desk", "userId": "ann", "sessionId": "s", "newMessage": MESSAGE, "streaming": True}
EVENT = {"id": "e", "invocationId": "i", "author": "user", "timestamp": 1.5, "content": MESSAGE, "actions": {}}
PART = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


@dataclass(frozen=True)
class Request:
    """What is sent."""

    method: str
    path: str
    body: Any = None
    raw: bytes | None = None
    """The body as it is, if it is no JSON any more."""
    headers: tuple[tuple[bytes, bytes], ...] = ((b"Content-Type", b"application/json"),)

    def bytes(self) -> bytes:
        """The request on the wire, after which the connection is closed."""
        body = self.raw if self.raw is not None else b"" if self.body is None else json.dumps(self.body).encode()
        lines = [b"%b %b HTTP/1.1" % (self.method.encode(), self.path.encode("utf-8", "surrogatepass"))]
        given = {name.lower() for name, _ in self.headers}
        lines += [b"Host: 127.0.0.1", b"Connection: close"] if b"host" not in given else []
        lines += [b"%b: %b" % header for header in self.headers]
        lines += [b"Content-Length: %d" % len(body)] if b"content-length" not in given else []
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


VALID = [
    Request("GET", "/health"),
    Request("GET", "/list-apps?detailed=true"),
    Request("GET", "/apps/desk/app-info"),
    Request("POST", S, {"sessionId": "new", "state": {"a": {"b": [1]}}, "events": [EVENT]}),
    Request("POST", f"{S}/other", {"a": 1}),
    Request("GET", S),
    Request("GET", f"{S}/s"),
    Request("GET", f"{S}/s?afterEventId=e&limit=3"),
    Request("GET", f"{S}?limit=3&after=s&q=hi"),
    Request("PATCH", f"{S}/s", {"stateDelta": {"a": 1, "user:b": None}}),
    Request("DELETE", f"{S}/other"),
    Request("POST", "/run", RUN),
    Request("POST", "/run_sse", {**RUN, "stateDelta": {"a": 1}, "customMetadata": {"k": 1}}),
    Request("POST", "/run_sse?resume_grace=0", {**RUN, "invocationId": "i", "newMessage": None}),
    Request("POST", "/apps/desk/run", RUN),
    Request("GET", f"{S}/s/runs"),
    Request("POST", f"{S}/s/cancel"),
    Request("POST", f"{S}/s/fork", {"throughEventId": "e"}),
    Request("POST", f"/dev{S}/s/explain", {"newMessage": MESSAGE}),
    Request("GET", f"{S}/s/runs/i/events", headers=((b"Last-Event-ID", b"i:1.0"),)),
    Request("POST", f"{S}/s/artifacts", {"filename": "a.png", "artifact": PART, "customMetadata": {"k": 1}}),
    Request("GET", f"{S}/s/artifacts"),
    Request("GET", f"{S}/s/artifacts/a.png?version=0"),
    Request("GET", f"{S}/s/artifacts/a.png/versions/0/metadata"),
    Request("DELETE", f"{S}/s/artifacts/a.png"),
    Request("PATCH", "/apps/desk/users/ann/memory", {"sessionId": "s"}),
    Request("GET", "/dev/apps/desk/build_graph_image?dark_mode=true&node=desk"),
    Request("GET", "/dev/apps/desk/debug/trace/session/s"),
    Request("GET", f"/dev{S}/s/events/e/graph"),
    Request("GET", f"/dev{S}/s/events/e/request"),
    Request("POST", "/config/telemetry", {"telemetry": False}),
    Request("POST", "/dev/models/requests/x/answer", {"parts": [{"text": "x"}]}),
    Request("GET", "/ui/index.html"),
    Request("GET", "/dev-ui/config"),
]
_ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    10**400,
    float("nan"),
    "",
    " ",
    "\0",
    "\ud800",
    "\u202ex",
    "x" * 5000,
    "../..",
    "__x",
    "a/b",
    "%2e%2e",
    [],
    {},
    [[]],
    {"": 0},
    {"\0": {"\ud800": None}},
    [None, 1, "x"],
    {"text": 1},
    {"functionCall": {"name": "clock"}},
    {"functionResponse": {"id": "x", "name": "adk_request_confirmation", "response": {"confirmed": 1}}},
    "2020-01-01",
    "iVBOR",
    {"inlineData": {"data": "!", "mimeType": 1}},
    -(2**63) - 1,
]
_PARTS = [
    "..",
    ".",
    "%00",
    "%ff",
    "%2F",
    "%2e%2e%2f",
    "__x",
    "nobody",
    "a b",
    "\ud800",
    "é",
    "x" * 300,
    "",
    "%",
    "'",
    "-1",
]
_HEADERS = [
    (b"Content-Type", b"text/plain"),
    (b"Content-Type", b"application/json; charset=x"),
    (b"Content-Type", b""),
    (b"Content-Type", b"multipart/form-data"),
    (b"Content-Encoding", b"gzip"),
    (b"Origin", b"null"),
    (b"Origin", b"\xff"),
    (b"Origin", b"http://["),
    (b"Host", b"evil.example"),
    (b"Host", b"[::1"),
    (b"Host", b""),
    (b"Accept", b"\xff/\xff"),
    (b"Last-Event-ID", b"x:999999999999999999999.1"),
    (b"Last-Event-ID", b"\xff"),
    (b"Range", b"bytes=5-1"),
    (b"If-None-Match", b"\xff"),
    (b"Authorization", b"Bearer \xff"),
    (b"X-Forwarded-Host", b","),
    (b"Forwarded", b'for=;;="'),
    (b"Content-Length", b"-1"),
    (b"Content-Length", b"9999999999"),
    (b"Transfer-Encoding", b"chunked"),
    (b"Expect", b"100-continue"),
    (b"Upgrade", b"websocket"),
    (b"X-Forwarded-Prefix", b"/\xff"),
    (b"Accept-Encoding", b"*;q=x"),
]
_METHODS = ["PUT", "TRACE", "OPTIONS", "HEAD", "X", "get", "DELETE", "PATCH", "POST", "GET"]


def malformed(number: int) -> Request:
    """The request of that number: the same for the same number."""
    chance = random.Random(number)
    made = chance.choice(VALID)
    for _ in range(chance.choice((1, 1, 2, 3))):
        made = chance.choice((_worse_body, _worse_body, _worse_bytes, _worse_path, _worse_query, _worse_head))(
            made, chance
        )
    return made


def _worse_body(request: Request, chance: random.Random) -> Request:
    return replace(request, body=_worse(request.body, chance))


def _worse(value: Any, chance: random.Random) -> Any:
    """A value in which one place is odd, is missing, or has one more."""
    if not value or not isinstance(value, dict | list) or chance.random() < 0.2:
        return chance.choice(_ODD)
    if isinstance(value, list):
        at = chance.randrange(len(value))
        return [*value[:at], _worse(value[at], chance), *value[at + 1 :]]
    key = chance.choice(list(value))
    rest = {name: inner for name, inner in value.items() if name != key}
    return chance.choice(
        (
            rest,
            {**rest, key: _worse(value[key], chance)},
            {**value, chance.choice(("x", "role", "")): chance.choice(_ODD)},
        )
    )


def _worse_bytes(request: Request, chance: random.Random) -> Request:
    data = json.dumps(request.body).encode()
    at = chance.randrange(len(data) + 1)
    return replace(
        request,
        raw=chance.choice((data[:at], data[:at] + chance.randbytes(3) + data[at:], b"[" * 3000, b"\xff\xfe", data * 2)),
    )


def _worse_path(request: Request, chance: random.Random) -> Request:
    path, mark, query = request.path.partition("?")
    parts = path.split("/")
    at = chance.randrange(1, len(parts))
    odd = chance.choice(_PARTS)
    parts[at] = odd if "%" in odd else quote(odd, errors="surrogatepass")
    return replace(request, path="/".join(parts) + mark + query)


def _worse_query(request: Request, chance: random.Random) -> Request:
    name = chance.choice(
        ("version", "limit", "after", "q", "resume_grace", "events", "dark_mode", "afterEventId", "%ff")
    )
    value = chance.choice(("-1", "x", "", "99999999999999999999", "%00", "%ff", "nan", "1e9", "true"))
    return replace(request, path=f"{request.path}{'&' if '?' in request.path else '?'}{name}={value}")


def _worse_head(request: Request, chance: random.Random) -> Request:
    if chance.random() < 0.4:
        return replace(request, method=chance.choice(_METHODS))
    name, value = chance.choice(_HEADERS)
    kept = tuple(header for header in request.headers if header[0] != name)
    return replace(request, headers=(*kept, (name, value)))


def status_of(address: tuple[str, int], request: Request) -> tuple[int, bytes]:
    """The status and the whole answer; 0 if the connection was closed without one."""
    with socket.create_connection(address, 10) as sent:
        sent.settimeout(60)
        try:
            sent.sendall(request.bytes())
            sent.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := sent.recv(65536):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            return 0, b""
    return int(answer.split(b" ", 2)[1]) if answer else 0, answer
