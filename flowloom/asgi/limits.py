"""How much one request may be: bodies, header lines, the depth of JSON (server spec §8)."""

from __future__ import annotations

import asyncio
from array import array
from itertools import accumulate

from flowloom.asgi.protocol import Message, Receive, RejectedError, Scope, Send, body_of, header_of, start_of

MAX_HEADER_LINES = 100
MAX_JSON_DEPTH = 200
_LINGER = 2.0
"""Seconds for which the rest of a body is thrown away, so that a client that is still sending reads the answer."""
_OPEN, _CLOSE = b"[{", b"]}"
_STEPS = bytes.maketrans(_OPEN + _CLOSE, b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(_OPEN + _CLOSE))


class JsonDepth:
    """How deep the arrays and objects of a JSON text go, which comes in pieces."""

    def __init__(self) -> None:
        self._now = 0
        self._quoted = 0
        """1 inside of a string."""
        self._rest = b""
        """A backslash, whose second character comes with the next piece."""

    def feed(self, piece: bytes) -> int:
        """The greatest depth within `piece`; cost grows with its length alone."""
        text = (self._rest + piece).replace(b"\\\\", b"")
        self._rest = b"\\" if text.endswith(b"\\") else b""
        parts = text.removesuffix(b"\\").replace(b'\\"', b"").split(b'"')
        bare = b"".join(parts[self._quoted :: 2])
        self._quoted = (self._quoted + len(parts) - 1) % 2
        steps = array("b", bare.translate(_STEPS, _NO_BRACKETS))
        if not steps:
            return self._now
        depths = list(accumulate(steps, initial=self._now))
        self._now = depths[-1]
        return max(depths)


def check_headers(scope: Scope) -> None:
    """Raise `RejectedError` (431) for a request with too many header lines."""
    if len(scope["headers"]) > MAX_HEADER_LINES:
        raise RejectedError(431, "too_large", f"The request has more than {MAX_HEADER_LINES} header lines.")


def check_length(scope: Scope, limit: int) -> None:
    """Raise `RejectedError` (413) for a request that says its body is longer than `limit` bytes."""
    if any(length.isdigit() and int(length[:20]) > limit for length in header_of(scope, "content-length")):
        raise _too_large(limit)


class LimitedBody:
    """The body of one request: read through `receive`, answered through `send`.

    As soon as it is longer than `limit` bytes, or is JSON of more than `MAX_JSON_DEPTH` levels, the request is answered
    with 413; the application finds its client gone.
    """

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        self._read = 0
        self._depth = JsonDepth()
        self._begun = False
        self.rejected = False
        """Whether it was too much; the application is not heard any more."""

    async def receive(self) -> Message:
        """The next message of the client."""
        if self.rejected:
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        body: bytes = message.get("body", b"")
        self._read += len(body)
        error = self._excess(body, message.get("more_body", False))
        if error is None:
            return message
        if not self._begun:
            self.rejected = True
            await reject_and_drain(self._receive, self._send, error)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass on what the application answers."""
        if not self.rejected:
            self._begun = True
            await self._send(message)

    def _excess(self, body: bytes, more: bool) -> RejectedError | None:
        if self._read > self._limit:
            return _too_large(self._limit)
        if not more and self._read == len(body) and body.count(b"{") + body.count(b"[") <= MAX_JSON_DEPTH:
            return None  # the whole body, with no more brackets than may be within each other
        if self._depth.feed(body) > MAX_JSON_DEPTH:
            return RejectedError(413, "too_large", f"The JSON is nested deeper than {MAX_JSON_DEPTH} levels.")
        return None


async def reject_and_drain(receive: Receive, send: Send, error: RejectedError) -> None:
    """Answer a request whose body is too much, and close the connection once the client had time to read that."""
    body = body_of(error)
    error.headers["connection"] = "close"
    await send(start_of(error, body))
    await send({"type": "http.response.body", "body": body, "more_body": True})
    try:
        async with asyncio.timeout(_LINGER):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b""})


def _too_large(limit: int) -> RejectedError:
    return RejectedError(413, "too_large", f"The body is larger than {limit} bytes.")
