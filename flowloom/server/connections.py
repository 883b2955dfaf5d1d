"""HTTP connections: heads of requests have a bound, and those who answer can drop one (server spec §5, §8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flowloom.asgi.protocol import RejectedError, body_of

_DROP = "flowloom.drop"
MAX_HEAD_BYTES = 64 * 1024
"""How long the line and the headers of a request may be that come in several pieces."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; a head that does not end is refused with 431, because the parser would keep all of it,
    and applications may end the connection without waiting for what was not taken."""

    # its attributes would be one too many for a dictionary that shares its keys with those of other connections
    __slots__ = ("_head_bytes", "_in_head")

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._in_head, self._head_bytes = False, 0
        super().__init__(*arguments, **more)
        served: Any = self.app

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope[_DROP] = self._drop
            await served(scope, receive, send)

        self.app: Any = app

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

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

    def _drop(self) -> None:
        self.transport.abort()


def drop(scope: Scope) -> None:
    """End the connection of a request at once, where that can be done: its client has stopped to read."""
    dropped: Callable[[], None] | None = scope.get(_DROP)
    if dropped is not None:
        dropped()
