"""A database that is gone for a while: no run fails, no worker dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres_server import Cluster, end_process, find_binaries

from durable.fleet import WHO, client_of, opened, steps, where, worker_of
from flowloom.durable import DbosCourier, RunClient, StoreCourier, Worker
from flowloom.errors import StorageError
from flowloom.sessions import SqliteSessionService
from flowloom.sessions.postgres import PostgresSessionService
from flowloom.testing.suites.courier_crew import APP, crew_runner
from flowloom.testing.suites.courier_place import Place, quiet, story, submitted

__all__ = ["where"]
TIMES = range(5 if int(os.environ.get("FLOWLOOM_KILLS", "30")) >= 200 else 1)
AWAY = [4.0, 20.0] if os.environ.get("FLOWLOOM_LONG") else [4.0]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server of the test's own, to be stopped."""
    made = Cluster(find_binaries())
    yield made
    made.stop()


@pytest.mark.soak
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("kind", ["store", "dbos"])
@pytest.mark.parametrize("seconds", AWAY)
@pytest.mark.timeout(200)
async def test_a_database_that_is_stopped_at_once_fails_no_run(
    cluster: Cluster, tmp_path: Path, seconds: float, kind: str, time: int
) -> None:
    """The runs go on when it is back, with the logs of quiet runs; the worker is the one that it was."""
    await outlived(cluster, tmp_path, seconds, kind)


async def test_a_database_that_is_started_anew_fails_no_run(cluster: Cluster, tmp_path: Path) -> None:
    """However short it was away: all connections are cut."""
    await outlived(cluster, tmp_path, 0.0, "store")


async def outlived(cluster: Cluster, folder: Path, seconds: float, kind: str) -> None:
    """Runs go on when the server is back that is stopped for so long."""
    dsn = f"postgresql://postgres@127.0.0.1:{cluster.port}/postgres"
    service, place = PostgresSessionService(dsn, max_connections=4), Place(dsn, folder)
    runner = crew_runner(service, place.diary, 0.1)
    couriers = [StoreCourier(service, APP) if kind == "store" else DbosCourier(dsn) for _ in range(2)]
    async with (
        RunClient(APP, service, courier=couriers[0]) as client,
        Worker(runner, courier=couriers[1], heartbeat=0.3, dead_after=3.0) as worker,
    ):
        name = worker.name
        runs = [await submitted(client, number, steps=6) for number in range(6)]
        await asyncio.sleep(0.8)
        os.kill(cluster.server.pid, signal.SIGQUIT)
        await asyncio.to_thread(cluster.server.wait)
        await asyncio.sleep(seconds)
        settings = ["-D", str(cluster.data), "-p", str(cluster.port), "-c", "listen_addresses=127.0.0.1"]
        cluster.server = cluster.run("postgres", *settings, "-c", "unix_socket_directories=")
        assert await asyncio.to_thread(cluster.answers, cluster.server)
        for run in runs:
            while not (info := await run.info()).over:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            assert info.status == "final", info
            assert await story(run) == quiet(6, run)
        assert worker.name == name
        again = place.check_keys(runs)
        assert again <= 6
    await service.close()
    end_process(cluster.server)


async def test_a_file_that_is_locked_for_long_fails_no_run(tmp_path: Path) -> None:
    """And no worker is dead, though it was not heard of for longer than that: the others had no database either."""
    await locked_out(tmp_path, 2.5, 1.5)


@pytest.mark.soak
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("seconds", AWAY)
async def test_a_file_that_is_locked_for_longer_fails_no_run(tmp_path: Path, seconds: float, time: int) -> None:
    """The same, for as long as a server is stopped."""
    await locked_out(tmp_path, seconds, seconds / 2)


async def locked_out(folder: Path, seconds: float, dead_after: float) -> None:
    """Runs of two workers go on when the file is free that another process has locked for so long."""
    path = str(folder / "runs.db")
    place, services = Place(path, folder), [SqliteSessionService(path) for _ in range(3)]
    runners = [crew_runner(service, place.diary, 0.1) for service in services[:2]]
    beats: dict[str, float] = {"heartbeat": dead_after / 6, "dead_after": dead_after}
    async with (
        RunClient(APP, services[2]) as client,
        Worker(runners[0], **beats) as one,
        Worker(runners[1], **beats) as two,
    ):
        names = [one.name, two.name]
        runs = [await submitted(client, number, steps=3) for number in range(6)]
        await asyncio.sleep(max(0.3, dead_after))  # they could bury each other by now
        with contextlib.closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(seconds)
            other.execute("ROLLBACK")
        late = await submitted(client, 7, steps=1)
        for run in (*runs, late):
            assert (await asyncio.wait_for(run.result(), 60)).status == "final"
            assert await story(run) == quiet(1 if run is late else 3, run)
        assert [one.name, two.name] == names
        assert place.check_keys([*runs, late]) == 0
    for service in services:
        await service.close()


async def test_a_run_whose_log_cannot_be_read_at_first_is_handed_back(where: str) -> None:
    """The database went away between the claim and the first look at the session: no failure of the run."""
    service, other = opened(where), opened(where)
    real, failed = service.database.read, list[str]()

    async def read(work: Any) -> Any:
        if "get_session" in work.__qualname__ and not failed:
            failed.append("once")
            raise StorageError("The database is away.")
        return await real(work)

    service.database.read = read
    async with worker_of(service, steps(1)), client_of(other) as client:
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).status == "final"
        assert failed
        assert (await run.info()).attempts == 1
    await service.close()
    await other.close()


async def test_a_run_whose_log_is_broken_has_failed(where: str) -> None:
    """Whoever read it again would find it as it is."""
    service = opened(where)
    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        async with worker_of(service, ["Hi."]):
            await run.result()
        broken = "UPDATE flowloom_events SET event = 'none'"
        await client.registry.write(lambda c: c.execute(broken), "test")
    await service.close()
    service = opened(where)
    async with client_of(service) as client, worker_of(service, ["Hi."]):
        run = await client.submit("Go on.", **WHO)
        while not (info := await run.info()).over:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert info.outcome is not None
        assert (info.status, info.outcome.error_code) == ("failed", "StorageError")
    await service.close()
