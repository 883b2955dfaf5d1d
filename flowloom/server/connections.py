"""HTTP connections that can be dropped by those who answer (server spec §5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

_DROP = "flowloom.drop"


_Protocol: Any = AutoHTTPProtocol


class DroppableProtocol(_Protocol):
    """uvicorn's HTTP protocol; applications may end the connection without waiting for what was not taken."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)  # pyright: ignore[reportUnknownMemberType] - the base is chosen at run time
        served: Any = self.app

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope[_DROP] = self._drop
            await served(scope, receive, send)

        self.app = app

    def _drop(self) -> None:
        self.transport.abort()


def drop(scope: Scope) -> None:
    """End the connection of a request at once, where that can be done: its client has stopped to read."""
    dropped: Callable[[], None] | None = scope.get(_DROP)
    if dropped is not None:
        dropped()
