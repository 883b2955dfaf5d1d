"""What a worker leaves that cannot start, or whose end is broken off: nothing; and one that is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from durable.fleet import APP, WHO, client_of, opened, steps, where, worker_of
from flowloom.durable import DbosCourier, Deltas, StoreCourier
from flowloom.durable.channel import this_machine
from flowloom.durable.courier import Deliver, Free
from flowloom.errors import ConfigurationError
from flowloom.testing.suites.courier_place import until

__all__ = ["where"]


class Watched:
    """A courier that brings nothing, and tells whether it was closed."""

    closed = False

    async def offer(self, run_ids: Sequence[str]) -> None: ...

    async def serve(self, handle: Deliver, free: Free) -> None:
        await asyncio.Event().wait()

    async def withdraw(self, run_id: str) -> None: ...

    async def check(self) -> None: ...

    async def close(self) -> None:
        self.closed = True


async def test_a_worker_that_cannot_listen_leaves_the_process_its_dbos(postgres_dsn: str) -> None:
    """The next one of the process starts."""
    service = opened(postgres_dsn)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        deltas = Deltas("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match="cannot listen"):
            async with worker_of(service, [], courier=DbosCourier(postgres_dsn), deltas=deltas):
                pass
    async with client_of(service) as client, worker_of(service, steps(1), courier=DbosCourier(postgres_dsn)):
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).status == "final"
    await service.close()


async def test_a_worker_whose_start_is_cancelled_is_none_of_the_fleet(where: str) -> None:
    """Even if the registry has it already; its courier is closed."""
    service, courier = opened(where), Watched()
    worker = worker_of(service, [], courier=courier)
    real, registered = worker.registry.register, asyncio.Event()

    async def register(row: object) -> None:
        await real(row)  # pyright: ignore[reportArgumentType]
        registered.set()
        await asyncio.sleep(60)

    worker.registry.register = register
    starting = asyncio.create_task(worker.run())
    await registered.wait()
    starting.cancel()
    await asyncio.wait([starting])
    assert courier.closed
    async with client_of(service) as client:
        assert await client.workers() == []
    await service.close()


async def test_an_end_that_is_cancelled_leaves_nothing(where: str) -> None:
    """However often: the registry knows of the end, and the courier is closed."""
    service, courier = opened(where), Watched()
    worker = worker_of(service, [], courier=courier)
    running = asyncio.create_task(worker.run())
    async with client_of(service) as client:
        while not await client.workers():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([running])
        await until(lambda: courier.closed)
        while await client.workers():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await service.close()


async def test_a_worker_that_reads_nothing_keeps_no_client_waiting(tmp_path: Path) -> None:
    """It may have been stopped, and others are there."""
    service, path = opened(str(tmp_path / "fleet.db")), str(tmp_path / "stopped.sock")
    async with worker_of(service, [], heartbeat=2.0, dead_after=60.0) as worker:
        with socket.socket(socket.AF_UNIX) as stopped:
            stopped.bind(path)
            stopped.listen()
            row = worker.row("stopped")._replace(address=f"{this_machine()}:unix:{path}")
            await worker.registry.register(row)
            courier = StoreCourier(service, APP)
            async with asyncio.timeout(60):
                for _ in range(3000):
                    await courier.offer(["r1"])
            await courier.close()
    await service.close()
