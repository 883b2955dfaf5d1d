"""`python -m benchmarks.persistence`: what it costs that sessions last, and that a run is told as typed events.

Everything is a ratio or a difference within one process: the machine may be shared. The bare loop writes each content
with a statement and a commit of its own, as one does by hand, into the same kind of file with the same durability.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.genai import types

from benchmarks import script
from benchmarks.peers import flowloom, google_contents
from benchmarks.peers.adk_names import RunnerEngine
from benchmarks.peers.engine import Engine
from benchmarks.toolbox import add
from flowloom import Event, EventActions, SqliteSessionService
from flowloom.events.wire import make
from flowloom.run_stream import RunStreamMapper

CASES = ("text", "tool")


class StoredBareLoop:
    """A case by hand, with every content written down as it comes."""

    def __init__(self, case: str, path: Path) -> None:
        self.case = case
        self.batch = script.turns_of(case)
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL").fetchall()
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(
            "CREATE TABLE events (session TEXT, seq INTEGER, event TEXT, PRIMARY KEY (session, seq))"
        )
        self._contents: list[types.Content] = []
        self._session = ""

    async def start(self) -> None:
        self._contents, self._session = [], str(uuid.uuid4())

    async def turn(self) -> str:
        self._keep(google_contents.user())
        while True:
            content = google_contents.answer(self.case, self._contents)
            asked = [part.function_call for part in content.parts or () if part.function_call is not None]
            for call in asked:
                call.id = str(uuid.uuid4())
            self._keep(content)
            if not asked:
                return (content.parts or [types.Part()])[0].text or ""
            results = [(call, await add(**(call.args or {}))) for call in asked]  # pyright: ignore[reportArgumentType]
            parts = [
                types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=result))
                for call, result in results
            ]
            self._keep(types.Content(role="user", parts=parts))

    def _keep(self, content: types.Content) -> None:
        self._contents.append(content)
        row = (self._session, len(self._contents), content.model_dump_json(exclude_none=True))
        self._database.execute("BEGIN IMMEDIATE")
        self._database.execute("INSERT INTO events VALUES (?, ?, ?)", row)
        self._database.execute("COMMIT")

    async def close(self) -> None:
        self._database.close()


class StoredEngine(RunnerEngine):
    """A case on flowloom, with sessions in a SQLite file."""

    service: SqliteSessionService

    def __init__(self, case: str, path: Path, size: int = 0) -> None:
        super().__init__(replace(flowloom.NAMES, InMemorySessionService=lambda: SqliteSessionService(path)), case, size)

    async def close(self) -> None:
        await self.runner.close()
        await self.service.close()


async def timed(engine: Engine, turns: int) -> float:
    """Seconds of some turns of a new conversation."""
    await engine.start()
    await engine.turn()
    started = time.perf_counter()
    for _ in range(turns):
        await engine.turn()
    return time.perf_counter() - started


async def turns_beside_bare_loop(case: str, folder: Path, rounds: int = 15, turns: int = 20) -> list[float]:
    """How many turns flowloom does in the time of one of the bare loop, both on SQLite: each round's."""
    bare, stored = StoredBareLoop(case, folder / f"{case}.bare"), StoredEngine(case, folder / f"{case}.flowloom")
    found: list[float] = []
    try:
        for number in range(rounds + 2):
            times = await timed(bare, turns), await timed(stored, turns)
            if number >= 2:  # those before warm up
                found.append(times[0] / times[1])
    finally:
        await bare.close()
        await stored.close()
    return found


async def late_beside_early(folder: Path, turns: int = 2000, width: int = 100) -> float:
    """The last turns of a long conversation on SQLite, in the first ones of others, turn about; medians of each."""
    long, short = StoredEngine("text", folder / "long"), StoredEngine("text", folder / "short")
    spent: dict[StoredEngine, list[float]] = {long: [], short: []}
    try:
        await long.start()
        for _ in range(turns - width):
            await long.turn()
        for number in range(width):
            if number % 10 == 0:
                await short.start()
                await short.turn()
            for engine in (long, short):
                started = time.perf_counter()
                await engine.turn()
                spent[engine].append(time.perf_counter() - started)
    finally:
        await long.close()
        await short.close()
    return statistics.median(spent[long]) / statistics.median(spent[short])


async def one_more_turn(folder: Path, events: int = 10_000, repeat: int = 9) -> tuple[float, float]:
    """Milliseconds of processor time of one turn on a session of so many events: by a runner that has seen it, and by a
    new one. Others use the machine too, and hardly anything is waited for."""
    path = folder / "large"
    engine = StoredEngine("text", path)
    try:
        await engine.start()
        session = engine.sessions[0]
        for number in range(events // 2):
            for author, content in google_contents.exchange("history", number):
                event = Event(author=author, invocation_id=f"i{number}", content=content)
                await engine.service.append_buffered(session, event)
        await engine.service.flush()
        await engine.turn()
        seen = [await _milliseconds(engine) for _ in range(repeat)]
    finally:
        await engine.close()
    cold: list[float] = []
    for _ in range(repeat):
        del engine
        gc.collect()
        engine = StoredEngine("text", path)
        engine.sessions = [session]
        try:
            cold.append(await _milliseconds(engine))
        finally:
            await engine.close()
    return min(seen), min(cold)


async def _milliseconds(engine: RunnerEngine) -> float:
    started = time.process_time()
    await engine.turn()
    return (time.process_time() - started) * 1000


def per_delta(rounds: int = 7, deltas: int = 5000) -> float:
    """Microseconds that typed events cost for each delta of a stream, over the events they are made of."""
    found: list[float] = []
    for _ in range(rounds):
        events = _streamed(deltas)
        gc.collect()
        started = time.thread_time()
        for _ in events:
            pass
        plain = time.thread_time() - started
        mapper = RunStreamMapper()
        started = time.thread_time()
        for event in events:
            for _ in mapper.feed(event):
                pass
        found.append((time.thread_time() - started - plain) / deltas * 1e6)
    return min(found)


def _streamed(deltas: int) -> Sequence[Event]:
    values: dict[str, Any] = {"author": "root", "invocation_id": "i", "id": "e", "partial": True}
    return [
        make(Event, **{**values, "content": google_contents.said(script.PIECE), "actions": EventActions()})
        for _ in range(deltas)
    ]


def sync(folder: Path, repeat: int = 200) -> float:
    """Microseconds that the disk takes to keep a page; what is durable costs this in any case."""
    spent: list[float] = []
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(repeat):
            file.write(bytes(4096))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            spent.append(time.perf_counter() - started)
    return statistics.median(spent) * 1e6


async def measured(folder: Path) -> None:
    """Measure everything and print it."""
    print(f"a sync of this disk: {sync(folder):.0f} µs")
    for case in CASES:
        found = await turns_beside_bare_loop(case, folder)
        print(f"{case}: {statistics.median(found):.2f} × the bare loop's rate ({min(found):.2f} to {max(found):.2f})")
    print(f"the last 100 of 2,000 turns: {await late_beside_early(folder):.2f} × the first of others")
    seen, cold = await one_more_turn(folder)
    print(f"one more turn on 10,000 events: {seen:.2f} ms when they were seen, {cold:.0f} ms cold")
    print(f"a typed delta: {per_delta():.2f} µs over the plain event")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measured(Path(folder)))


if __name__ == "__main__":
    main()
