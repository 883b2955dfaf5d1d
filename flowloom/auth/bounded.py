"""How much is read of what a stranger's server answers.

`bound` sets the limit of an answer that is not read yet; `bounding` does so for all answers of an HTTP client, of
`httpx` or `httpx2`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

from flowloom.errors import FlowloomError

MAX_BYTES = 1024 * 1024
"""How long a document may be: a description, a token, an agent's card."""
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class AnswerTooLongError(FlowloomError):
    """A server has answered more than is read; `told` says so in a few words."""

    def __init__(self, limit: int) -> None:
        self.told = f"more than {limit} bytes"
        super().__init__(f"The answer has {self.told}: it is not read.")


def bounding(limit: int = MAX_BYTES) -> Callable[[Any], Awaitable[None]]:
    """The hook `response` of an HTTP client of which no answer is longer than `limit` bytes."""

    async def hook(answer: Any) -> None:
        bound(answer, limit)

    return hook


def bound(answer: Any, limit: int = MAX_BYTES) -> None:
    """Let at most `limit` bytes be read of an `answer`, unpacked; of a stream of events, of each event.

    Whoever reads more gets an `AnswerTooLongError`. The answer has to be one that is streamed.
    """
    headers = answer.headers
    library = type(answer).__module__.partition(".")[0]
    kind, packed = _kind(library)
    inner = packed(answer.status_code, headers=headers, stream=answer.stream)
    is_events = headers.get("content-type", "").lower().startswith("text/event-stream")
    answer.stream = kind(inner, answer.stream, limit, is_events)
    headers.pop("content-encoding", None)  # it is unpacked by then


@cache
def _kind(library: str) -> tuple[Any, Any]:
    """The class of bounded streams of an HTTP `library`, and its class of answers."""
    module: Any = import_module(library)

    class Bounded(module.AsyncByteStream):
        """What is read of an answer."""

        def __init__(self, inner: Any, source: Any, limit: int, is_events: bool) -> None:
            self._inner, self._source, self._limit, self._is_events = inner, source, limit, is_events

        async def __aiter__(self) -> AsyncIterator[bytes]:
            read, end = 0, b""
            async for piece in self._inner.aiter_bytes():
                read += len(piece)
                if self._is_events:
                    last = _last_end(end + piece)
                    read = read if last is None else last
                    end = piece[-3:]
                if read > self._limit:
                    raise AnswerTooLongError(self._limit)
                yield piece

        async def aclose(self) -> None:
            await self._source.aclose()

    return Bounded, module.Response


def _last_end(data: bytes) -> int | None:
    """How many bytes there are behind the last event that ends in `data`; None if none ends there."""
    behind = max(at + len(end) if (at := data.rfind(end)) >= 0 else 0 for end in _EVENT_ENDS)
    return len(data) - behind if behind else None
