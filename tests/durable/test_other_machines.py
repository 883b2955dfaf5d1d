"""Workers of other machines, whose sockets cannot be reached: PostgreSQL tells them at once what is to be done."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from durable.fleet import WHO, client_of, opened, worker_of
from flowloom.durable import StoreCourier, Worker, callers
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import call

SELDOM: dict[str, Any] = {"heartbeat": 30.0, "dead_after": 90.0, "sweep": 30.0}


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket of a worker can be reached, as if all were on machines of their own."""
    monkeypatch.setattr(callers, "path_of", lambda address: None)


def worker(service: SqlSessionService, answers: list[Any], *tools: Any) -> Worker:
    """One that looks by itself every half a minute."""
    return worker_of(service, answers, *tools, courier=StoreCourier(service, "travel", poll=30.0), **SELDOM)


async def listens(dsn: str, count: int = 1) -> None:
    """Wait until so many connections listen."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        while (await (await connection.execute(sql)).fetchone()) != (count,):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_run_is_taken_at_once(postgres_dsn: str) -> None:
    """The one who has made it ready wakes a worker by the database."""
    mine, theirs = opened(postgres_dsn), opened(postgres_dsn)
    async with worker(theirs, ["Hello."]), client_of(mine) as client:
        await listens(postgres_dsn)
        began = time.monotonic()
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).text == "Hello."
        assert time.monotonic() - began < 15
    await mine.close()
    await theirs.close()


async def test_a_run_is_cancelled_at_once(postgres_dsn: str) -> None:
    """Long before its worker's next beat."""
    mine, theirs, begun = opened(postgres_dsn), opened(postgres_dsn), asyncio.Event()

    async def sleep() -> str:
        """Sleep."""
        begun.set()
        await asyncio.sleep(60)
        return "ok"

    async with worker(theirs, [call("sleep")], sleep), client_of(mine) as client:
        await listens(postgres_dsn)
        run = await client.submit("Go.", **WHO)
        await asyncio.wait_for(begun.wait(), 60)
        began = time.monotonic()
        assert await run.cancel() == "running"
        assert (await asyncio.wait_for(run.result(), 60)).status == "cancelled"
        assert time.monotonic() - began < 15
    await mine.close()
    await theirs.close()


async def test_a_worker_listens_again_when_its_connection_was_cut(postgres_dsn: str) -> None:
    """And looks then, for what it may have missed; none is left when it ends."""
    mine, theirs = opened(postgres_dsn), opened(postgres_dsn)
    quick = {"heartbeat": 0.1, "dead_after": 90.0, "sweep": 30.0}
    courier = StoreCourier(theirs, "travel", poll=30.0)
    async with worker_of(theirs, ["Hello."], courier=courier, **quick), client_of(mine) as client:
        await listens(postgres_dsn)
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            connection.execute(f"{sql} AND datname = current_database()".encode())
        await listens(postgres_dsn)
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).text == "Hello."
    await listens(postgres_dsn, 0)
    await mine.close()
    await theirs.close()
