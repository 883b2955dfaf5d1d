"""A server as a process: its pipes, its last words on stderr, and its end (protocols spec §1, Lifecycle).

The process leads a group of its own, which ends as a whole. Messages are read by whoever takes them, and written by
whoever sends them; a task reads stderr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, TextIO

import mcp_types as types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from flowloom.protocols.mcp.parameters import MAX_MESSAGE_BYTES, StdioServer
from flowloom.protocols.words import cleaned

_log = logging.getLogger("flowloom.mcp")
STEP_SECONDS = 2.0
"""How long a server has to end after each of: the end of its input, SIGTERM, SIGKILL."""
LAST_LINES = 20
MAX_LINE_CHARACTERS = 500
_CHUNK = 256 * 1024


class Incoming:
    """The messages of a server, in order, as they are read from its output; what is no message is passed over.

    It ends with the output, or with a message that is too long: `on_end` is called with the reason.
    """

    last_context = None

    def __init__(self, pipe: asyncio.StreamReader, server: StdioServer, on_end: Callable[[str], None]) -> None:
        self._pipe, self._server, self._on_end = pipe, server, on_end
        self._messages: deque[SessionMessage] = deque()
        self._begun: list[bytes] = []
        """The pieces of a line whose end has not come."""
        self._waiting = 0
        self._ended = False

    async def _read(self) -> None:
        """Take what comes next of the output."""
        chunk = await self._pipe.read(_CHUNK)
        *lines, rest = chunk.split(b"\n")
        if lines or not chunk:
            lines = [b"".join([*self._begun, *lines[:1]]), *lines[1:]]
            self._begun, self._waiting = [], 0
            for line in lines:
                self._take(line)
        self._begun.append(rest)
        self._waiting += len(rest)
        if not chunk:
            self._end("the process ended its output.")
        elif self._waiting > MAX_MESSAGE_BYTES:
            self._end(f"it sent a message of more than {MAX_MESSAGE_BYTES} bytes.")

    def _end(self, reason: str) -> None:
        self._ended = True
        self._on_end(reason)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        server = self._server
        try:
            text = line.decode(server.encoding, server.encoding_error_handler)
            message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
        except (ValueError, RecursionError):
            _log.warning("The server `%s` wrote %d bytes that are no message: passed over.", server.command, len(line))
            return
        self._messages.append(SessionMessage(message))

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def aclose(self) -> None:
        self._ended = True
        self._messages.clear()

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._messages:
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return self._messages.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


class Outgoing:
    """Where messages to a server are written, each as one line."""

    def __init__(self, pipe: asyncio.StreamWriter, encoding: str) -> None:
        self._pipe, self._encoding = pipe, encoding

    async def send(self, item: SessionMessage, /) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        with suppress(ConnectionError, RuntimeError):  # the end of its output says that the server is gone
            self._pipe.write(f"{line}\n".encode(self._encoding, "replace"))
            await self._pipe.drain()

    async def aclose(self) -> None:
        with suppress(ConnectionError, RuntimeError):
            self._pipe.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


class LastWords:
    """What a server writes to stderr: into `errlog`, or the log `flowloom.mcp`; the last lines are kept for errors.

    `hide` takes the values of the server's own variables out.
    """

    def __init__(self, errlog: TextIO | None, hide: Callable[[str], str]) -> None:
        self._errlog, self._hide = errlog, hide
        self.lines: deque[str] = deque(maxlen=LAST_LINES)

    async def read(self, pipe: asyncio.StreamReader) -> None:
        """Read all there is, however much."""
        rest = ""
        while chunk := await pipe.read(_CHUNK):
            *lines, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
            for line in lines:
                self._take(line)
            rest = rest[:MAX_LINE_CHARACTERS]
        if rest:
            self._take(rest)

    def _take(self, line: str) -> None:
        line = self._hide(cleaned(line))[:MAX_LINE_CHARACTERS].rstrip()
        if not line:
            return
        self.lines.append(line)
        if self._errlog is None:
            _log.debug("A server says: %s", line)
            return
        with suppress(OSError, ValueError):  # a file that was closed meanwhile
            self._errlog.write(line + "\n")

    def told(self) -> str:
        """The last lines, for the text of an error; empty if there are none."""
        return f" It said last:\n{chr(10).join(self.lines)}" if self.lines else ""


@asynccontextmanager
async def process_streams(
    server: StdioServer, words: LastWords, on_end: Callable[[str], None]
) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    """Start `server`, and give its streams; `on_end` is called with the reason when its output ends. On leaving, the
    whole process group is ended."""
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**get_default_environment(), **(server.env or {})},
        cwd=server.cwd,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    tasks = [asyncio.create_task(words.read(process.stderr))]
    try:
        yield Incoming(process.stdout, server, on_end), Outgoing(process.stdin, server.encoding)
    finally:
        tasks.append(asyncio.create_task(_drained(process.stdout)))
        await _ended(process, tasks)


async def _drained(pipe: asyncio.StreamReader) -> None:
    """Read what a server that ends still writes, so that it does not wait for a reader."""
    while await pipe.read(_CHUNK):
        pass


async def _ended(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[Any]]) -> None:
    """End a process and its group, one step after the other, and then what read its pipes."""
    try:
        assert process.stdin is not None
        with suppress(ConnectionError, RuntimeError):
            process.stdin.close()
        await _exits(process)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not _signalled(process, number):
                break
            await _exits(process)
            await _gone(process)
    finally:
        _signalled(process, signal.SIGKILL)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        transport: Any = getattr(process, "_transport", None)  # a descendant that left the group may hold a pipe
        if transport is not None:
            transport.close()


async def _exits(process: asyncio.subprocess.Process) -> bool:
    """Whether the process exits in time. It is asked, since waiting for it waits for its pipes as well."""
    return await _happens(lambda: process.returncode is not None)


async def _gone(process: asyncio.subprocess.Process) -> bool:
    return await _happens(lambda: not _signalled(process, 0))


async def _happens(condition: Callable[[], bool]) -> bool:
    loop = asyncio.get_running_loop()
    end, pause = loop.time() + STEP_SECONDS, 0.001
    while not condition():
        if loop.time() >= end:
            return False
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True


def _signalled(process: asyncio.subprocess.Process, number: int) -> bool:
    """Send a signal to the group; whether there was a process to get it."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif process.returncode is None:
            process.terminate()
        else:
            return False
    except (ProcessLookupError, PermissionError):
        return False
    return True
