"""What flowloom's server costs: beside google-adk's with the same agent, and beside a run in the same process.

Each server has an environment and a process of its own, as one that is deployed (`api_server`, which keeps no traces),
with its sessions in memory; they take turns in rounds. Every turn is in a session of its own. Turns are told by the
servers' processor time: by the clock, both would have the client's beside, and the waits for a processor that other
programs use.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines import GOOGLE_ADK, ROOT, SERVED, Installed, install_all
from benchmarks.http_wire import Connection
from benchmarks.results import Row
from benchmarks.rounds import Plan, cell_of
from flowloom import InMemorySessionService, RunConfig, Runner, StreamingMode
from flowloom.cli.loading import load_app

AGENTS = Path(__file__).parent / "server_agents"
APP = "answering"
BESIDE = "× google-adk's server"
START = 120.0
"""Seconds in which a server has to answer."""
LONG = 400
"""Pieces of the answer by which the cost of an event is told."""
OPEN = 200
"""Streams that are open while memory is looked at."""
MANY, RATE = 500, 20
"""Streams, and events a second of each."""
BEFORE = 340
"""Events that each of these has had before memory is looked at: what is kept for those who come back is full then, and
all of it has numbers past 256, up to which Python has them ready: later ones take 32 bytes each."""

TURN = "a turn by `POST /run`, of processor time"
CLOCK = "a turn by `POST /run`, by the clock"
FIRST = "the first byte of `POST /run_sse`"
MEMORY = f"memory with {OPEN} open streams"
STREAM = f"what each of {OPEN} open streams takes of it"
RUN_COST = "what the server adds to a run"
EVENT_COST = "what the server adds to an event"
LOAD = f"{MANY} streams of {RATE} events/s"
GROWTH = "by how much the memory grows in 10 s of that"
TITLES = (TURN, CLOCK, FIRST, MEMORY, STREAM, RUN_COST, EVENT_COST, LOAD, GROWTH)


@dataclass
class Served:
    """A server's process, and the port at which it answers."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def processor(self) -> float:
        """Seconds of processor time that its threads have had, those that are there."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    @property
    def memory(self) -> float:
        """MiB that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


@contextmanager
def served(engine: Installed) -> Iterator[Served]:
    """The server of an engine. Raises `RuntimeError` if it does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    module = ["-m", "google.adk.cli"] if engine.spec is GOOGLE_ADK else ["-m", "flowloom"]
    memory = ["--session_service_uri", "memory://", "--artifact_service_uri", "memory://"]
    command = [engine.python, *module, "api_server", "--no-reload", "--port", str(port), *memory, str(AGENTS)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            _wait(process, port)
            yield Served(process, port)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    limit = time.monotonic() + START
    while time.monotonic() < limit and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the server does not answer: {process.args}")


# -- asking ----------------------------------------------------------------------------------------


def _asked(name: str, pieces: int = 1, pause: int = 0, *, streaming: bool = False) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"text": f"{pieces} {pause}"}]}
    return {"appName": APP, "userId": "u", "sessionId": name, "newMessage": message, "streaming": streaming}


_numbers = itertools.count()


async def _sessions(connection: Connection, count: int) -> list[str]:
    """The names of as many new sessions, each name once."""
    names = [f"s{next(_numbers)}" for _ in range(count)]
    for name in names:
        await connection.post(f"/apps/{APP}/users/u/sessions", {"sessionId": name})
    return names


async def turns(server: Served, connection: Connection, names: list[str]) -> float:
    """Seconds of the server's processor time of one turn by `/run`."""
    started = server.processor
    for name in names:
        await connection.post("/run", _asked(name))
    return (server.processor - started) / len(names)


async def turns_by_clock(server: Served, connection: Connection, names: list[str]) -> float:
    """Seconds of one turn by `/run`, with all that lies between."""
    started = time.perf_counter()
    for name in names:
        await connection.post("/run", _asked(name))
    return (time.perf_counter() - started) / len(names)


async def first_byte(server: Served, connection: Connection, names: list[str]) -> float:
    """Seconds until a stream begins, the median of the sessions."""
    found: list[float] = []
    for name in names:
        started = time.perf_counter()
        begun: float | None = None
        async for _ in connection.stream("/run_sse", _asked(name, 5, streaming=True)):
            begun = time.perf_counter() - started if begun is None else begun
        found.append(begun or 0.0)
    return statistics.median(found)


@asynccontextmanager
async def opened(port: int, names: list[str], pieces: int, pause: int) -> AsyncIterator[list[AsyncIterator[bytes]]]:
    """Streams that have begun, one of each session."""
    connections = [await Connection.to(port) for _ in names]
    streams = [
        connection.stream("/run_sse", _asked(name, pieces, pause, streaming=True))
        for connection, name in zip(connections, names, strict=True)
    ]
    try:
        await asyncio.gather(*(anext(stream) for stream in streams))
        yield streams
    finally:
        for connection in connections:
            connection.close()


# -- the lines -------------------------------------------------------------------------------------


async def _beside(
    pair: dict[str, Served],
    plan: Plan,
    measured: Callable[[Served, Connection, list[str]], Awaitable[float]],
    count: int,
) -> tuple[list[float], dict[str, float]]:
    """The ratios of the rounds, and the median of each server in seconds."""
    found: dict[str, list[float]] = {name: [] for name in pair}
    for number in (-1, *plan.each_round()):  # the first one warms up
        for name in pair if number % 2 else reversed(pair):
            connection = await Connection.to(pair[name].port)
            value = await measured(pair[name], connection, await _sessions(connection, count))
            connection.close()
            if number >= 0:
                found[name].append(value)
    own, theirs = found.values()
    medians = {name: statistics.median(values) for name, values in found.items()}
    return [mine / other for mine, other in zip(own, theirs, strict=True)], medians


async def _memory(server: Served) -> tuple[float, float]:
    """MiB with open streams, and KiB that each of them has added."""
    connection = await Connection.to(server.port)
    first, *names = await _sessions(connection, OPEN + 1)
    await connection.post("/run", _asked(first))
    before = server.memory
    async with opened(server.port, names, 1000, 1000):
        found = server.memory
    connection.close()
    return found, (found - before) / OPEN * 1024


async def _own_costs(server: Served, plan: Plan) -> tuple[list[float], list[float]]:
    """Milliseconds of a run, and microseconds of an event, of processor time beyond those in process."""
    agent = load_app(AGENTS / APP).agent
    connection = await Connection.to(server.port)
    runs: list[float] = []
    events: list[float] = []

    async def over_http(pieces: int, count: int) -> float:
        sessions = await _sessions(connection, count)
        started = server.processor
        for name in sessions:
            await connection.post("/run_sse", _asked(name, pieces, streaming=True))
        return (server.processor - started) / count

    async def in_process(pieces: int, count: int) -> float:
        service = InMemorySessionService()
        runner = Runner(agent=agent, app_name=APP, session_service=service)
        for number in range(count):
            await service.create_session(app_name=APP, user_id="u", session_id=f"s{number}")
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        started = time.process_time()
        for number in range(count):
            message = f"{pieces} 0"
            async for _ in runner.run_async(
                user_id="u", session_id=f"s{number}", new_message=message, run_config=config
            ):
                pass
        spent = (time.process_time() - started) / count
        await runner.close()
        return spent

    for number in (-1, *plan.each_round()):
        short = [await way(1, 200) for way in (over_http, in_process)]
        long = [await way(LONG, 10) for way in (over_http, in_process)]
        if number >= 0:
            runs.append((short[0] - short[1]) * 1e3)
            events.append(((long[0] - short[0]) - (long[1] - short[1])) / (LONG - 1) * 1e6)
    connection.close()
    return runs, events


async def load(server: Served, seconds: float) -> tuple[float, float, float]:
    """The processors that many streams need, by how many MiB the memory grows in 10 s of them, and how many of the
    events that were due have come."""
    os.sched_setaffinity(server.process.pid, {max(os.sched_getaffinity(0))})
    connection = await Connection.to(server.port)
    names = await _sessions(connection, MANY)
    connection.close()
    come, filled = 0, asyncio.Event()

    async def read(stream: AsyncIterator[bytes]) -> None:
        nonlocal come
        async for piece in stream:
            come += piece.count(b"data: ")
            if come >= BEFORE * MANY:
                filled.set()

    async with opened(server.port, names, 100_000, 1000 // RATE) as streams:
        readers = [asyncio.create_task(read(stream)) for stream in streams]
        await filled.wait()
        memory, spent, before, started = server.memory, server.processor, come, time.perf_counter()
        await asyncio.sleep(seconds)
        took, events = time.perf_counter() - started, come - before
        cores = (server.processor - spent) / events * MANY * RATE
        growth = (server.memory - memory) / took * 10
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return cores, growth, events / (MANY * RATE * took)


def run_server(engines: list[Installed], plan: Plan, only: str, notes: list[str]) -> Iterator[Row]:
    """The lines about servers whose title holds `only`."""
    if not any(only in title for title in TITLES):
        return
    installed, missing = install_all((SERVED,))
    notes += missing
    if not installed:
        return
    own = installed[0]
    peer = next((engine for engine in engines if engine.spec is GOOGLE_ADK), None)
    if peer is not None:
        with served(own) as ours, served(peer) as theirs:
            pair = {"flowloom": ours, GOOGLE_ADK.name: theirs}
            for title, measured, count, aim in (
                (TURN, turns, 50, 0.1),
                (CLOCK, turns_by_clock, 50, None),
                (FIRST, first_byte, 20, 0.2),
            ):
                if only in title:
                    ratios, medians = asyncio.run(_beside(pair, plan, measured, count))
                    said = ", ".join(f"{name} {value * 1000:.2f} ms" for name, value in medians.items())
                    notes.append(f"{title}: {said}")
                    yield Row(title, BESIDE, aim, {"flowloom": cell_of(ratios)})
        if only in MEMORY or only in STREAM:
            held = {}
            for engine in (own, peer):
                with served(engine) as server:
                    held[engine.name] = asyncio.run(_memory(server))
            for number, (title, unit) in enumerate(((MEMORY, "MiB"), (STREAM, "KiB"))):
                said = ", ".join(f"{name} {value[number]:.0f} {unit}" for name, value in held.items())
                notes.append(f"{title}: {said}")
                ratio = held[own.name][number] / held[peer.name][number]
                yield Row(title, BESIDE, 0.5, {"flowloom": cell_of([ratio])})
    yield from _alone(own, plan, only, notes)


def _alone(own: Installed, plan: Plan, only: str, notes: list[str]) -> Iterator[Row]:
    if only in RUN_COST or only in EVENT_COST:
        with served(own) as server:
            runs, events = asyncio.run(_own_costs(server, plan))
        yield Row(RUN_COST, "ms of processor time", 1, {"flowloom": cell_of(runs)})
        yield Row(EVENT_COST, "µs of processor time", 50, {"flowloom": cell_of(events)})
    if only in LOAD or only in GROWTH:
        with served(own) as server:
            cores, growth, come = asyncio.run(load(server, 200 * plan.seconds))
        notes.append(f"{LOAD}: {come:.0%} of the events came when they were due, on one processor that others used too")
        yield Row(LOAD, "cores", 1, {"flowloom": cell_of([cores])})
        yield Row(GROWTH, "MiB", 1, {"flowloom": cell_of([growth])})
