"""A model service on 127.0.0.1: true HTTP/1.1, with answers written beforehand.

How they look on the wire is in `gemini_wire`, `openai_wire`, `responses_wire` and `anthropic_wire`. The server runs in
a thread with an event loop of its own, so that it can serve several loops of a test one after another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self

from loopback import listening

Ending = Literal["complete", "cut", "hang", "silent", "reset"]
"""What happens behind the last piece of an answer.

`cut` drops the connection before the body's end; `hang` sends no more and waits for the client to leave. There is no
answer at all, not even a status, with `silent`, which waits as well, and `reset`, which drops the connection.
"""


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
    ending: Ending = "complete"


def raw_stream(pieces: Iterable[bytes], ending: Ending = "complete") -> Reply:
    """A stream of these bytes, piece by piece."""
    return Reply(list(pieces), content_type="text/event-stream", ending=ending)


def closed_port() -> int:
    """A port of this machine where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


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

    def reply_to(self, seen: Seen) -> Reply:
        """What is answered to a request. It runs in the thread of the server, one request at a time."""
        return self.replies.pop(0) if self.replies else self.failure("no reply is left")

    def failure(self, message: str) -> Reply:
        """What is answered when the server itself does not know what to say."""
        error = {"code": 500, "status": "INTERNAL", "type": "server_error", "message": message}
        return Reply([json.dumps({"error": error}).encode()], status=500)

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
        async with listening(self._converse) as port:
            self._started.set_result(port)
            await self._stop.wait()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (seen := await _read_request(reader)) is not None:
                self.requests.append(seen)
                try:
                    reply = self.reply_to(seen)
                except Exception as error:  # the test then fails with this, and not for a connection that was dropped
                    reply = self.failure(f"The test's server failed: {error!r}")
                await self._answer(reply, reader, writer)
                if reply.ending != "complete":
                    break
        except ConnectionError:  # it has left while it was answered
            self.client_left.set()
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reply.ending == "reset":
            # To linger for no time makes the end of the connection a reset.
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return
        if reply.ending != "silent":
            await self._send(reply, writer)
        if reply.ending in ("hang", "silent"):
            with contextlib.suppress(ConnectionError):
                await reader.read(1)
            self.client_left.set()
        elif reply.ending == "cut":
            writer.write_eof()

    async def _send(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        headers = {"content-type": reply.content_type, "transfer-encoding": "chunked", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} {_phrase(reply.status)}", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for piece in reply.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if reply.ending == "complete":
            writer.write(b"0\r\n\r\n")
        await writer.drain()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"  # 529 is nobody's but Anthropic's


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
