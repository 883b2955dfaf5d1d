"""The direct channel: what a worker tells followers of its runs at once, over sockets.

Lines of JSON, over a Unix socket for callers of its machine, and as `Deltas` say for those of others. A caller says
first who it is (the `token` of the worker's row) and what it wants: to `follow` a run, or to `ring` (a run is ready) or
`look` (something is asked of a run). Nothing that is told here is only told here: the log and the registry have it all,
but for parts of messages, which complete events follow (durable design, section 7).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flowloom.durable.deltas import STRANGER, Deltas, Door
from flowloom.events import Event
from flowloom.sessions.sql_holders import this_process

MAX_LINE = 64 * 1024 * 1024
ATTEMPT = 1_000_000
"""How many parts of messages an attempt may tell between two complete events, so that their numbers are its own."""
_MOST_KEPT = 256 * 1024
"""Bytes of a run that are kept for those who come late."""
_MOST_WAITING = 10_000
"""Lines that a follower may be behind; one that is further is cut off, and reads the log."""


def this_machine() -> str:
    """What processes have in common that can reach each other's sockets."""
    known = this_process()
    told = " ".join(known.split(" ")[:2]) if known is not None else socket.gethostname()
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def path_of(address: str | None) -> str | None:
    """The path of a worker's socket, if it can be reached from here."""
    machine, _, path = (address or "").partition(":unix:")
    return path if path and machine.rpartition(" ")[2] == this_machine() else None


def forget(address: str | None) -> None:
    """Take away the socket of a worker that has ended, if it is of this machine."""
    path = path_of(address)
    if path is not None:
        with contextlib.suppress(OSError):
            Path(path).unlink()


class _Follower:
    """Someone who follows a run: the lines that it has not been sent yet."""

    def __init__(self, deltas: bool) -> None:
        self.deltas = deltas
        self.lines: deque[bytes] = deque()
        self.more = asyncio.Event()
        self.over = False

    def tell(self, line: bytes) -> None:
        if len(self.lines) > _MOST_WAITING:
            self.over = True
        else:
            self.lines.append(line)
        self.more.set()


class _Topic:
    """A run that is under way here: who follows it, and what was told of it, as far as that is kept. Parts of messages
    are numbered from `base` on, which grows with each attempt at the run: none has the number of an earlier one."""

    def __init__(self, attempt: int) -> None:
        self.base = self.since = ATTEMPT * (attempt - 1)
        self.followers: set[_Follower] = set()
        self.told: deque[bytes] = deque()
        self._size = 0

    def keep(self, line: bytes) -> None:
        """Keep a line for those who come later, and no more than there is room for."""
        self.told.append(line)
        self._size += len(line)
        while self._size > _MOST_KEPT:
            self._size -= len(self.told.popleft())


class Channel:
    """The worker's end. `rung` is called when a run is said to be ready, `looked` when something is asked of one;
    `deltas` say where callers of other machines are let in."""

    def __init__(self, rung: Callable[[], None], looked: Callable[[], None], deltas: Deltas | None = None) -> None:
        self._rung = rung
        self._looked = looked
        self._topics: dict[str, _Topic] = {}
        self._server: asyncio.AbstractServer | None = None
        self._path: Path | None = None
        self._door = None if deltas is None else Door(deltas, self._serve_stranger)
        self._callers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.token = secrets.token_hex(16)
        self.address: str | None = None

    async def open(self) -> None:
        """Listen, on Unix sockets where the system has them; without, followers read the log from time to time. Raises
        `ConfigurationError` if callers of other machines cannot be let in as `Deltas` say."""
        remote = None if self._door is None else await self._door.open()
        await self._open_here()
        self.address = " ".join(str(each) for each in (remote, self.address) if each is not None) or None

    async def _open_here(self) -> None:
        if sys.platform == "win32":
            return
        folder = Path(tempfile.gettempdir()) / f"flowloom-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.stat().st_uid != os.getuid() or folder.is_symlink():
                return
            self._path = folder / f"{secrets.token_hex(8)}.sock"
            self._server = await asyncio.start_unix_server(self._serve, str(self._path), limit=MAX_LINE)
        except OSError:
            return
        self.address = f"{this_machine()}:unix:{self._path}"

    async def close(self) -> None:
        """Listen no more, and hang up."""
        if self._server is not None:
            self._server.close()
        callers = dict(self._callers)
        for caller, line in callers.items():
            caller.cancel()
            line.transport.abort()  # a caller that was stopped reads no more
        if ending := {*callers, *(self._door.close() if self._door is not None else ())}:
            await asyncio.wait(ending)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    # -- what the worker tells -----------------------------------------------------------------------

    def begin(self, run_id: str, attempt: int) -> None:
        """A run is under way here from now on; which `attempt` at its leg that is counts from 1."""
        self._topics[run_id] = _Topic(attempt)

    def tell(self, run_id: str, event: Event, stored: int) -> None:
        """An event of it was yielded, and is in the log unless it is partial; the session has `stored` events then."""
        topic = self._topics.get(run_id)
        if topic is None:
            return
        if event.partial:
            topic.since += 1
            line = _line({"part": event.to_wire(), "at": [stored, topic.since]})
            topic.keep(line)
            for follower in topic.followers:
                if follower.deltas:
                    follower.tell(line)
            return
        topic.since = topic.base
        line = _line({"stored": event.id})
        topic.keep(line)
        for follower in topic.followers:
            follower.tell(line)

    def end(self, run_id: str) -> None:
        """It is not under way here any more, and the registry says what has become of it."""
        topic = self._topics.pop(run_id, None)
        for follower in () if topic is None else topic.followers:
            follower.over = True
            follower.more.set()

    # -- callers ---------------------------------------------------------------------------------------

    async def _serve_stranger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer, STRANGER)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float | None = None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._callers[task] = writer
        try:
            while line := await _said(reader, patience):
                said: Any = json.loads(line)
                if not secrets.compare_digest(str(said.get("token")).encode("utf-8", "replace"), self.token.encode()):
                    return
                if said.get("do") == "ring":
                    self._rung()
                elif said.get("do") == "look":
                    self._looked()
                elif said.get("do") == "follow":
                    await self._follow(str(said.get("run")), bool(said.get("deltas")), writer)
        except (OSError, ValueError, AttributeError, RecursionError, asyncio.CancelledError):
            pass  # a caller that went, or that is none of ours; the server is closed
        finally:
            del self._callers[task]
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _follow(self, run_id: str, deltas: bool, writer: asyncio.StreamWriter) -> None:
        topic = self._topics.get(run_id)
        if topic is None:
            writer.write(_GONE)
            return
        follower = _Follower(deltas)
        for line in topic.told:  # so that who comes late sees what who was there has seen
            if deltas or line.startswith(_STORED):
                follower.tell(line)
        topic.followers.add(follower)
        try:
            while True:
                while follower.lines:
                    writer.write(follower.lines.popleft())
                await writer.drain()
                if follower.lines:
                    continue
                if follower.over:
                    writer.write(_GONE)
                    return
                follower.more.clear()
                await follower.more.wait()
        finally:
            topic.followers.discard(follower)


async def _said(reader: asyncio.StreamReader, patience: float | None) -> bytes:
    async with asyncio.timeout(patience):
        return await reader.readline()


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"), default=repr).encode() + b"\n"


_GONE, _STORED = _line({"gone": True}), b'{"stored"'
