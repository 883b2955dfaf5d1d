"""The answers that carry runs: a stream of frames, each an HTTP chunk of its own, or a list (server spec §4, §5)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from flowloom.server.connections import connection_of
from flowloom.server.failures import error_id_of, told_text
from flowloom.server.frames import KEEP_ALIVE, LEGACY_DONE, Frame, legacy_chunks, legacy_objects
from flowloom.server.problems import problem_answer, problem_body
from flowloom.server.runs import Runs
from flowloom.server.served_run import ALL_AT_ONCE, FrameReader, ServedRun

_log = logging.getLogger("flowloom.server")
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
STALLED_SECONDS = 60.0
"""After how long a client that takes nothing counts as gone."""


def canonical_chunks(frame: Frame) -> Sequence[bytes]:
    """A frame as it is."""
    return (frame.chunk,)


class EventStream(Response):
    """The frames that `reader` gives, to its end. Ends early, and leaves the run, when the client has gone."""

    background = None

    # what stands in a `Response` that is sent at once is never made
    def __init__(self, runs: Runs, reader: FrameReader, keep_alive: float, *, legacy: bool = False) -> None:
        self._runs = runs
        self._reader = reader
        self._keep_alive = keep_alive
        self._chunks: Callable[[Frame], Sequence[bytes]] = legacy_chunks if legacy else canonical_chunks
        self._last = LEGACY_DONE if legacy else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._runs.stream():
                async with Client(scope, receive, self._reader.tell) as client:
                    sender = _Sender(send, self._reader, self._keep_alive)
                    try:
                        whole = await self._send_all(sender, client)
                    finally:
                        sender.close()
            if not whole:
                log_gone(scope)
            connection = connection_of(scope)
            if sender.stalled and connection is not None:
                connection.drop()
        finally:
            self._reader.leave()

    async def _send_all(self, sender: _Sender, client: Client) -> bool:
        """Send what there is, to the end; False if the client has gone before."""
        reader, chunks = self._reader, self._chunks
        await sender.start()
        while not (client.gone or sender.stalled):
            frame = reader.take()
            if frame is not None:
                for chunk in chunks(frame):
                    await sender.send(chunk)
            elif reader.at_end:
                await sender.end(self._last)
                return not sender.stalled
            else:
                await reader.news()
                if sender.is_silent():
                    await sender.send(KEEP_ALIVE)
        return False


class _Sender:
    """Sends chunks, and wakes those who send when nothing was sent for a while."""

    def __init__(self, send: Send, reader: FrameReader, keep_alive: float) -> None:
        self._send, self._reader, self._keep_alive = send, reader, keep_alive
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._last = self._loop.time()
        self._sending = False
        self.stalled = False
        """Whether the client has taken nothing for too long."""
        self._timer = self._loop.call_later(min(keep_alive, STALLED_SECONDS), self._look)

    async def start(self) -> None:
        """The head of the answer."""
        await self._send_one({"type": "http.response.start", "status": 200, "headers": HEADERS})

    async def send(self, chunk: bytes) -> None:
        """One chunk, which is flushed at once."""
        await self._send_one({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes) -> None:
        """The last chunk, if there is one, and the end of the answer."""
        if chunk:
            await self.send(chunk)
        await self._send_one({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_one(self, message: dict[str, Any]) -> None:
        if self.stalled:
            return
        self._last = self._loop.time()
        self._sending = True
        try:
            await self._send(message)
        except asyncio.CancelledError:
            if not self.stalled or self._task is None:
                raise
            self._task.uncancel()
        finally:
            self._sending = False

    def is_silent(self) -> bool:
        """Whether nothing was sent for so long that the client is to be shown that the stream goes on."""
        return self._loop.time() - self._last >= self._keep_alive

    def _look(self) -> None:
        silent = self._loop.time() - self._last
        if self._sending and silent >= STALLED_SECONDS:
            self.stalled = True
            if self._task is not None:
                self._task.cancel()
            return
        if not self._sending and silent >= self._keep_alive:
            self._reader.tell()
            silent = 0.0
        pause = min(self._keep_alive, STALLED_SECONDS) - (0.0 if self._sending else silent)
        self._timer = self._loop.call_later(max(pause, 0.01), self._look)

    def close(self) -> None:
        """Watch no more."""
        self._timer.cancel()


class RunList(Response):
    """The events of a run as a list, when it is over."""

    background = None

    def __init__(self, run: ServedRun, *, dev: bool, legacy: bool = False) -> None:
        self._run, self._dev, self._legacy = run, dev, legacy
        self._reader = run.read(patience=ALL_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        run, reader = self._run, self._reader
        try:
            async with Client(scope, receive, reader.tell) as client:
                listed: list[bytes] = []
                while not (client.gone or reader.at_end):
                    frame = reader.take()
                    if frame is None:
                        await reader.news()
                    elif self._legacy:
                        listed += legacy_objects(frame)
                    elif frame.is_event:
                        listed.append(frame.json)
                if client.gone:
                    log_gone(scope)
                    return
                await self._answer(run, listed)(scope, receive, send)
        finally:
            reader.leave()

    def _answer(self, run: ServedRun, listed: list[bytes]) -> Response:
        refusal = run.refusal()
        if refusal is not None:
            return problem_answer(refusal.status, problem_body(refusal.code, refusal.detail), refusal.headers)
        if run.error is not None and not self._legacy:
            text = told_text(run.error, dev=self._dev)
            return problem_answer(500, problem_body("run_failed", text, error_id_of(run.error)))
        if self._legacy:
            listed.append(json.dumps({"type": "done"}, separators=(",", ":")).encode())
        return _Json(b"[" + b",".join(listed) + b"]")


class _Json(Response):
    """What `Response` sends, and nothing of what can be done with one before."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Client:
    """Whether who asks is still there, which is noticed while nothing is sent, too; `tell` is called when they go."""

    __slots__ = ("_connection", "_receive", "_tell", "_watching", "gone")

    def __init__(self, scope: Scope, receive: Receive, tell: Callable[[], object]) -> None:
        self._connection = connection_of(scope)
        self._receive, self._tell = receive, tell
        self._watching: asyncio.Task[None] | None = None
        self.gone = False

    async def __aenter__(self) -> Self:
        if self._connection is None:
            self._watching = asyncio.create_task(self._watch(), name="flowloom client")
        else:
            self.gone = self._connection.lost
            self._connection.on_lost = self._leave
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._connection is not None:
            self._connection.on_lost = None
        elif self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    def _leave(self) -> None:
        self.gone = True
        self._tell()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave()


def log_gone(scope: Scope) -> None:
    """The client has gone before it had its answer."""
    _log.info('"%s %s" 499: the client has gone.', scope["method"], scope["path"])
