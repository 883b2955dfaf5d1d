"""A Gemini service on 127.0.0.1: true HTTP/1.1 and the true wire format, with answers written beforehand.

It runs in a thread with an event loop of its own, so that it can serve several loops of a test one after another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> list[str]:
        """The values of all headers of that name."""
        return [value for key, value in self.headers if key.lower() == name]


@dataclass(frozen=True)
class Reply:
    """An answer: the body in pieces, each sent on its own, and what happens then."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"
    ending: Literal["complete", "cut", "hang"] = "complete"
    """`cut` drops the connection before the body's end; `hang` sends no more and waits for the client to leave."""


def whole(*parts: dict[str, Any], finish: str | None = "STOP", **fields: Any) -> Reply:
    """An answer of `generateContent`."""
    return Reply([json.dumps(answer(*parts, finish=finish, **fields)).encode()])


def refusal(status: int, code: str, message: str = "no", *details: Any, headers: dict[str, str] | None = None) -> Reply:
    """An error as Google reports it."""
    return Reply([json.dumps(error(status, code, message, *details)).encode()], status=status, headers=headers or {})


def streamed(*chunks: dict[str, Any], ending: Literal["complete", "cut", "hang"] = "complete") -> Reply:
    """An answer of `streamGenerateContent`, one server-sent event for each chunk."""
    return raw_stream([frame(chunk) for chunk in chunks], ending)


def raw_stream(pieces: Iterable[bytes], ending: Literal["complete", "cut", "hang"] = "complete") -> Reply:
    """A stream of these bytes, piece by piece."""
    return Reply(list(pieces), content_type="text/event-stream", ending=ending)


def frame(data: dict[str, Any]) -> bytes:
    """One server-sent event, as Google writes them."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\r\n\r\n"


def answer(*parts: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A response or chunk with one candidate; further fields, given in snake case, belong to the response."""
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-test", **fields}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"text": value, **fields}


def error(status: int, code: str, message: str = "no", *details: Any) -> dict[str, Any]:
    return {"error": {"code": status, "status": code, "message": message, "details": list(details)}}


class WireServer:
    """Gives its replies in order, one to each request, and keeps what was asked. A context manager."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Seen] = []
        self.connections = 0
        self.client_left = threading.Event()
        """Set when a client closes its connection while an answer hangs."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="wire-server")
        self._started: Future[int] = Future()
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._started.result()}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        handlers: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            handlers.add(asyncio.create_task(self._converse(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._started.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await server.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (seen := await _read_request(reader)) is not None:
                self.requests.append(seen)
                reply = self.replies.pop(0) if self.replies else refusal(500, "INTERNAL", "no reply is left")
                await self._answer(reply, reader, writer)
                if reply.ending != "complete":
                    break
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = {"content-type": reply.content_type, "transfer-encoding": "chunked", **reply.headers}
        lines = [
            f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
            *(f"{k}: {v}" for k, v in headers.items()),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for piece in reply.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if reply.ending == "complete":
            writer.write(b"0\r\n\r\n")
        elif reply.ending == "hang":
            with contextlib.suppress(ConnectionError):
                await reader.read(1)
            self.client_left.set()
            return
        await writer.drain()
        if reply.ending == "cut":
            writer.write_eof()


async def _read_request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Seen(method, path, headers, await reader.readexactly(length))
