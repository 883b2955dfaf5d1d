"""`python -m benchmarks.fences [STORE]`: what the fence costs an append (durable design, section 12).

Events are appended to a session that a run holds, and, turn about, to one of a store as it was before there was a
fence: its sessions have no epoch and no worker, no statement reads them, and nothing is compared. STORE is a PostgreSQL
URL, whose database is empty, or the path of a SQLite file that does not exist; a temporary file without one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.fleets import opened
from flowloom import Event
from flowloom.events.parts import content_of, text_part
from flowloom.sessions import Session, sql_log
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.sql import Connection

WHO: dict[str, Any] = {"app_name": "bench", "user_id": "ann"}


@contextmanager
def statements_before() -> Generator[None]:
    """The statement that finds a session is what it was before there was a fence."""
    now = sql_log.HEAD
    sql_log.HEAD = now.replace(", s.epoch", "")
    assert now != sql_log.HEAD
    try:
        yield
    finally:
        sql_log.HEAD = now


@contextmanager
def statements_now() -> Generator[None]:
    yield


def drop_columns(connection: Connection) -> None:
    for column in ("epoch", "worker"):
        connection.execute(f"ALTER TABLE flowloom_sessions DROP COLUMN {column}")


async def one_append(service: SqlSessionService, session: Session) -> tuple[float, float]:
    """Milliseconds of waiting, and of processor time, for one append."""
    event = Event(author="agent", content=content_of("model", [text_part("It is done. " * 20)]))
    began, used = time.perf_counter(), time.process_time()
    await service.append_event(session, event)
    return (time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000


async def beside(store: str, before: str, rounds: int, count: int) -> dict[str, Any]:
    """Rounds of so many appends to each of the two stores, in turns; the medians of each round."""
    fenced, bare = opened(store), opened(before)
    await fenced.create_session(**WHO, session_id="s")
    lease = await fenced.acquire_lease(**WHO, session_id="s", wait=True, seconds=3600)
    session = await fenced.get_session(**WHO, session_id="s")
    assert session is not None
    assert session.fence is not None
    other = await bare.create_session(**WHO, session_id="s")
    assert other.fence is None
    await bare.database.write(drop_columns)
    ways = [("fenced", fenced, session, statements_now), ("without", bare, other, statements_before)]
    found: dict[str, list[tuple[float, float]]] = {"fenced": [], "without": []}
    for number in range(rounds + 1):
        times: dict[str, list[tuple[float, float]]] = {"fenced": [], "without": []}
        for each in range(count):
            for name, service, theirs, statements in ways if each % 2 else reversed(ways):
                with statements():
                    times[name].append(await one_append(service, theirs))
        for name, some in times.items() if number else ():  # the first one warms up
            found[name].append((statistics.median(a for a, _ in some), statistics.median(b for _, b in some)))
    await lease.release()
    await fenced.close()
    await bare.close()
    pairs = list(zip(found["fenced"], found["without"], strict=True))
    return {
        "append ms": {name: statistics.median(each[0] for each in some) for name, some in found.items()},
        "ratio": statistics.median(one[0] / two[0] for one, two in pairs),
        "processor ratio": statistics.median(one[1] / two[1] for one, two in pairs),
        "rounds": rounds,
        "asked": 1.10,
    }


async def measured(store: str, rounds: int, count: int) -> dict[str, Any]:
    """The figures of a store; on PostgreSQL, the other one is a schema of the same database."""
    if not store.startswith("postgres"):
        return await beside(store, f"{store}.before", rounds, count)
    service = opened(store)
    await service.database.write(lambda c: c.execute("CREATE SCHEMA before_fences"))
    await service.close()
    return await beside(store, f"{store}?options=-csearch_path%3Dbefore_fences", rounds, count)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", nargs="?")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--appends", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or str(Path(folder) / "fences.db")
        print(json.dumps(asyncio.run(measured(store, options.rounds, options.appends)), indent=2))


if __name__ == "__main__":
    main()
