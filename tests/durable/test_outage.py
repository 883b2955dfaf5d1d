"""A database that is gone for a while: no run fails, no worker dies."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import Cluster, end_process, find_binaries

from flowloom.durable import DbosCourier, RunClient, StoreCourier, Worker
from flowloom.sessions.postgres import PostgresSessionService
from flowloom.testing.suites.courier_crew import APP, crew_runner
from flowloom.testing.suites.courier_place import Place, quiet, story, submitted

pytestmark = pytest.mark.soak
AWAY = [2.0, 20.0] if os.environ.get("FLOWLOOM_LONG") else [2.0]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server of the test's own, to be stopped."""
    made = Cluster(find_binaries())
    yield made
    made.stop()


@pytest.mark.parametrize("kind", ["store", "dbos"])
@pytest.mark.parametrize("seconds", AWAY)
@pytest.mark.timeout(200)
async def test_a_database_that_is_stopped_at_once_fails_no_run(
    cluster: Cluster, tmp_path: Path, seconds: float, kind: str
) -> None:
    """The runs go on when it is back, with the logs of quiet runs; the worker is the one that it was."""
    dsn = f"postgresql://postgres@127.0.0.1:{cluster.port}/postgres"
    service, place = PostgresSessionService(dsn, max_connections=4), Place(dsn, tmp_path)
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
