"""The callers' end of the direct channel: ringing at workers, and following a run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, NamedTuple

from flowloom.durable.channel import MAX_LINE, path_of
from flowloom.durable.deltas import Remote, Streams
from flowloom.durable.records import WorkerRow
from flowloom.durable.registry import Registry
from flowloom.errors import StorageError
from flowloom.events import Event

_log = logging.getLogger("flowloom.durable")
_UNREACHED_FOR = 30.0
"""Seconds until a worker of another machine is tried again that could not be reached."""
_KNOWN_FOR = 2.0
"""Seconds for which the workers are known that were read."""
_MOST_UNREAD = 4096
"""Bytes that a worker may have left unread; with more, it hears all the same as soon as it reads."""
_MOST_RUNG = 8
"""How many workers are rung at most: one has room, or the next that has finished looks by itself."""


class Part(NamedTuple):
    """A part of a message, `event`: when the session had `stored` events, the one of this number `since` the last."""

    event: Event
    stored: int
    since: int


class Callers:
    """Calls the workers of an app: those on this machine over their sockets, others by the database if that is
    PostgreSQL. It follows runs at either. What is missed is seen all the same, when the worker looks by itself."""

    def __init__(self, registry: Registry, app_name: str) -> None:
        self._registry = registry
        self._app_name = app_name
        self._workers: list[WorkerRow] = []
        self._read = 0.0
        self._lines: dict[str, asyncio.StreamWriter] = {}
        self._opening = asyncio.Lock()
        self._unreached: dict[str, float] = {}
        """The workers of other machines that could not be reached, and when they are tried again."""

    async def ring(self) -> None:
        """Say to workers that a run is ready: first to those that had room when they were heard of last."""
        if not self._workers or time.monotonic() - self._read > _KNOWN_FOR:
            self._read = time.monotonic()
            rows, moment = await self._registry.workers(self._app_name)
            self._workers = [row for row in rows if not row.draining and row.beat + row.patience > moment]
        some = random.sample(self._workers, len(self._workers))
        some.sort(key=lambda row: row.running >= row.capacity)
        await self._say(some[:_MOST_RUNG], "ring")

    async def look(self, worker: str | None) -> None:
        """Say to a worker that something is asked of a run of its."""
        rows, _ = await self._registry.workers(self._app_name)
        await self._say([row for row in rows if row.worker == worker], "look")

    async def _say(self, rows: Sequence[WorkerRow], what: Literal["ring", "look"]) -> None:
        elsewhere: list[str] = []
        for row in rows:
            path = path_of(row.address)
            if path is None:
                elsewhere.append(row.worker)
                continue
            try:
                line = await self._line_to(row.worker, path)
                if line.transport.get_write_buffer_size() < _MOST_UNREAD:  # a worker that was stopped keeps no caller
                    line.write(json.dumps({"token": row.token, "do": what}).encode() + b"\n")
            except OSError:
                self._hang_up(row.worker)
        if elsewhere:
            with contextlib.suppress(StorageError):  # it is seen by and by
                await self._registry.tell(self._app_name, what, elsewhere)

    async def _line_to(self, worker: str, path: str) -> asyncio.StreamWriter:
        async with self._opening:
            line = self._lines.get(worker)
            if line is None or line.is_closing():
                _, line = await asyncio.open_unix_connection(path, limit=MAX_LINE)
                self._lines[worker] = line
            return line

    def _hang_up(self, worker: str) -> None:
        line = self._lines.pop(worker, None)
        if line is not None:
            line.transport.abort()  # what a worker that was stopped has not read would keep it open
        self._workers = [row for row in self._workers if row.worker != worker]

    async def follow(self, row: WorkerRow, run_id: str, *, deltas: bool) -> AsyncGenerator[Part | str, None]:
        """What a worker tells of a run while it has it: parts of messages, and the ids of complete ones, which are in
        the log; an empty one if nothing was heard for half the time after which the worker is dead.

        It ends when the worker has done with the run, or is gone.
        """
        streams = await self._reached(row)
        if streams is None:
            return
        reader, writer = streams
        try:
            said = {"token": row.token, "do": "follow", "run": run_id, "deltas": deltas}
            writer.write(json.dumps(said).encode() + b"\n")
            with contextlib.suppress(OSError, ValueError):
                while line := await _line_of(reader, row.patience / 2):
                    told: dict[str, Any] = json.loads(line)
                    if "part" in told:
                        yield Part(Event.model_validate(told["part"]), *told["at"])
                    elif "stored" in told:
                        yield told["stored"]
                    else:
                        return
        finally:
            writer.transport.abort()  # a worker that was stopped would say no goodbye

    async def _reached(self, row: WorkerRow) -> Streams | None:
        """A connection to a worker: over its socket on this machine, and else as its `Deltas` say."""
        path = path_of(row.address)
        if path is not None:
            with contextlib.suppress(OSError):
                return await asyncio.open_unix_connection(path, limit=MAX_LINE)
        remote, now = Remote.of(row.address), time.monotonic()
        if remote is None or self._unreached.get(row.worker, now) > now:
            return None
        try:
            return await remote.connect(MAX_LINE)
        except (OSError, UnicodeError) as error:
            if row.worker not in self._unreached:
                _log.warning(
                    "Worker `%s` cannot be followed at %s, port %d: %s. Its runs are read from the log, without "
                    "deltas.",
                    *(row.worker, remote.host, remote.port, error),
                )
            self._unreached[row.worker] = time.monotonic() + _UNREACHED_FOR
            return None

    async def close(self) -> None:
        """Hang up everywhere, also where a line is about to be opened."""
        async with self._opening:
            for worker in list(self._lines):
                self._hang_up(worker)


async def _line_of(reader: asyncio.StreamReader, seconds: float) -> bytes:
    """The next line; one that says nothing after so many seconds without one."""
    reading = asyncio.ensure_future(reader.readline())
    try:
        await asyncio.wait({reading}, timeout=seconds)
        return reading.result() if reading.done() else _SILENCE
    finally:
        reading.cancel()


_SILENCE = b'{"stored":""}\n'
