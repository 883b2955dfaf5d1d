"""After a run, however it ended, nothing stays: no thread, no task, no connection, no lease, no file."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

from durability.office import Fuse, Office
from flowloom import BasePlugin, Event, Runner, SqliteSessionService
from flowloom.sessions.postgres import PostgresSessionService
from flowloom.sessions.sql_service import SqlSessionService

WHERE: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}


class Boom(RuntimeError):
    """What ends a run here."""


class Failing(BasePlugin):
    """Fails at the 9th event."""

    def __init__(self) -> None:
        super().__init__(name="failing")
        self.seen = 0

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        self.seen += 1
        if self.seen == 9:
            raise Boom
        return None


@pytest.fixture(params=["sqlite", "postgres"])
def make_service(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], SqlSessionService]:
    if request.param == "sqlite":
        return lambda: SqliteSessionService(tmp_path / "db")
    dsn: str = request.getfixturevalue("postgres_dsn")
    return lambda: PostgresSessionService(dsn)


def descriptors() -> set[str]:
    """The files and sockets that this process has open."""
    found: set[str] = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{each} {os.readlink(f'/proc/self/fd/{each}')}")
        except FileNotFoundError:  # the listing's own
            pass
    return found


async def settled() -> None:
    """Let what has ended go."""
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None, None]:
    """Assert that the block leaves no thread, task or descriptor."""
    await settled()
    threads, tasks, files = set(threading.enumerate()), asyncio.all_tasks(), descriptors()
    yield
    await settled()
    for _ in range(3000):
        if not set(threading.enumerate()) - threads:  # they take a moment to be gone
            break
        await asyncio.sleep(0.01)
    assert set(threading.enumerate()) - threads == set()
    assert asyncio.all_tasks() - tasks == set()
    assert descriptors() - files == set()


async def leases(service: SqlSessionService) -> list[Any]:
    """The tickets in the store, those aside that have been given back and wait for a writer."""
    for _ in range(3000):
        rows = await service.database.read(
            lambda connection: connection.execute("SELECT owner FROM flowloom_leases").fetchall()
        )
        if not rows:
            return []
        await asyncio.sleep(0.01)
    return rows


async def play(how: str, runner: Runner) -> None:
    """One run that ends as named."""
    if how == "whole":
        await runner.run_to_result(**WHERE, new_message="Plan a trip.")
    elif how == "dropped":
        events = runner.run_async(**WHERE, new_message="Plan a trip.")
        for _ in range(9):
            await anext(events)
        await events.aclose()
    elif how == "failed":
        with pytest.raises(Boom):
            await runner.run_to_result(**WHERE, new_message="Plan a trip.")
    else:
        handle = runner.start(**WHERE, new_message="Plan a trip.")
        seen = 0
        async for _ in handle:
            seen += 1
            if seen == 9:
                handle.cancel(mode="now" if how == "cancelled now" else "after_step")
        assert (await handle.result()).status == "cancelled"


@pytest.mark.parametrize("how", ["whole", "dropped", "failed", "cancelled now", "cancelled after a step"])
async def test_nothing_stays_after_a_run_that_was(
    how: str, make_service: Callable[[], SqlSessionService], tmp_path: Path
) -> None:
    async def once() -> None:
        service = make_service()
        office = Office(tmp_path / "diary", Fuse())
        runner = Runner(
            app_name="app",
            agent=office.root(),
            plugins=[Failing()] if how == "failed" else [],
            session_service=service,
            auto_create_session=True,
        )
        await play(how, runner)
        assert await leases(service) == []
        await runner.close()
        await service.close()
        office.close()

    await once()  # what is made once and kept, by anybody, is there now
    async with nothing_left():
        await once()


async def test_a_run_that_waits_for_its_turn_leaves_the_line_when_it_is_cancelled(
    make_service: Callable[[], SqlSessionService],
) -> None:
    """The one after it does not wait for it."""
    first, second = make_service(), make_service()
    where: Any = {"app_name": "app", **WHERE}
    held = await first.acquire_lease(**where, wait=True)
    for service in (first, second):  # in the same process, and as another one
        waiting = asyncio.create_task(service.acquire_lease(**where, wait=True))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await held.release()
    assert await leases(first) == []
    started = time.monotonic()
    await (await second.acquire_lease(**where, wait=True)).release()
    assert time.monotonic() - started < 15  # a lease that nobody renews is free after thirty
    await first.close()
    await second.close()


async def test_the_server_has_no_connection_left_after_close(
    postgres_dsn: str, postgres_server: PostgresServer
) -> None:
    service = PostgresSessionService(postgres_dsn)
    await service.create_session(app_name="app", user_id="ann")
    await asyncio.gather(*(service.list_sessions(app_name="app") for _ in range(20)))
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = '" + postgres_dsn.rpartition("/")[2] + "'"
    assert postgres_server.execute(count)[0][0] > 0
    await service.close()
    for _ in range(3000):  # the server takes a moment to notice
        if not (left := postgres_server.execute(count)[0][0]):
            break
        await asyncio.sleep(0.01)
    assert left == 0
