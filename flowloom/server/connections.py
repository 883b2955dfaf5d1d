"""HTTP connections: heads of requests have a bound, and those who answer can drop one, and are told when it is lost
(server spec §5, §8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flowloom.asgi.protocol import RejectedError, body_of

_CONNECTION = "flowloom.connection"
MAX_HEAD_BYTES = 64 * 1024
"""How long the line and the headers of a request may be that come in several pieces."""
_HEAD, _LENGTH = b"HTTP/1.1 ", b"\r\ncontent-length: "


class Writer:
    """A transport that sends the head of an answer together with the first piece of its body, where a body of that
    length is announced: the kernel, and who reads it, have one turn less."""

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        if self._head:  # whatever else is done comes behind it; uvicorn asks for something when an answer is complete
            self.write(b"")
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it, in order."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD) and _LENGTH in data:
            self._head = data
            return
        self._transport.write(data)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; a head that does not end is refused with 431, because the parser would keep all of it,
    and applications may end the connection without waiting for what was not taken, and be told when it is lost."""

    # its attributes would be one too many for a dictionary that shares its keys with those of other connections
    __slots__ = ("_head_bytes", "_in_head", "lost", "on_lost")

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._in_head, self._head_bytes = False, 0
        self.lost = False
        """Whether the client has gone."""
        self.on_lost: Callable[[], object] | None = None
        """Called then, by who answers now."""
        super().__init__(*arguments, **more)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        writer: Any = Writer(transport)
        super().connection_made(writer)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        super().connection_lost(exc)
        self.lost = True
        if self.on_lost is not None:
            self.on_lost()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()
        scope: Any = self.scope
        scope[_CONNECTION] = self

    def on_headers_complete(self) -> None:
        """Its head is over."""
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """A piece of what the client sends."""
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse_head()

    def _refuse_head(self) -> None:
        cycle: Any = self.cycle  # none before the first request
        if cycle is None or cycle.response_complete:  # else an answer is under way
            body = body_of(RejectedError(431, "too_large", f"The head is larger than {MAX_HEAD_BYTES} bytes."))
            self.transport.write(
                b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
            )
        self.transport.close()

    def drop(self) -> None:
        """End it at once: its client has stopped to read."""
        self.transport.abort()


def connection_of(scope: Scope) -> BoundedProtocol | None:
    """The connection that a request came by; None where another server than `flowloom` itself serves."""
    return scope.get(_CONNECTION)
