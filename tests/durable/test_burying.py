"""A worker that is buried while it claims a run: one of the two comes first, and the run is not lost between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from durable.fleet import APP, WHO, client_of, opened, runner_of, steps, where, worker_of
from flowloom.durable import StoreCourier, Worker, sql_runs
from flowloom.durable.registry import Registry
from flowloom.errors import StorageError
from flowloom.sessions.leases import uptime
from flowloom.sql.postgres import PostgresConnection
from flowloom.testing.suites.courier_place import until, until_async

__all__ = ["where"]


class Stuck(StoreCourier):
    """Its offers do not end."""

    stuck = False

    async def offer(self, run_ids: Sequence[str]) -> None:
        self.stuck = True
        await asyncio.Event().wait()


@pytest.fixture
async def registry(postgres_dsn: str) -> AsyncIterator[Registry]:
    """A registry with a worker `w` that does not beat, and a run that is ready."""
    service = opened(postgres_dsn)
    async with client_of(service) as client:
        await client.submit("Go.", **WHO, run_id="r1")
        worker = Worker(runner_of(service, ["Hi."]))
        await client.registry.register(worker.row("w"))
        yield client.registry
    await service.close()


async def beat_of(registry: Registry) -> float:
    rows, _ = await registry.workers(APP)
    return rows[0].beat


async def test_a_worker_that_is_being_buried_claims_nothing(postgres_dsn: str, registry: Registry) -> None:
    """It waits for the burial, and is not there any more then."""
    beat = await beat_of(registry)
    with psycopg.connect(postgres_dsn) as other:
        assert sql_runs.bury(PostgresConnection(other), registry.setting, "w", beat) == ()
        claiming = asyncio.create_task(registry.claim(APP, "w", [""], 1, None))
        done, _ = await asyncio.wait({claiming}, timeout=0.1)
        assert not done
        other.commit()
    assert await claiming == ([], False)
    row = await registry.find("r1")
    assert row is not None
    assert (row.status, row.worker) == ("ready", None)


async def test_what_a_worker_is_claiming_is_taken_from_it_when_it_is_buried(
    postgres_dsn: str, registry: Registry
) -> None:
    """The burial waits for the claim, and sees it."""
    beat = await beat_of(registry)
    with psycopg.connect(postgres_dsn) as other:
        claimed, _ = sql_runs.claim(PostgresConnection(other), registry.setting, APP, "w", [""], 1)
        assert [each.row.run_id for each in claimed] == ["r1"]
        burying = asyncio.create_task(registry.bury("w", beat))
        done, _ = await asyncio.wait({burying}, timeout=0.1)
        assert not done
        other.commit()
    assert await burying == ("r1",)
    row = await registry.find("r1")
    assert row is not None
    assert (row.status, row.worker, row.takeovers) == ("ready", None, 1)


async def test_a_courier_that_hangs_delays_no_beat(where: str) -> None:
    """A worker that offers the runs of a dead one goes on to be heard of, and takes them by itself."""
    service = opened(where)
    async with client_of(service) as client:
        await client.registry.register(worker_of(service, steps(1)).row("dead"))
        run = await client.submit("Go.", **WHO)
        claimed, _ = await client.registry.claim(APP, "dead", [""], 1, None)
        assert len(claimed) == 1
        courier = Stuck(service, APP, poll=0.1)
        async with worker_of(service, steps(1), courier=courier) as worker:
            await until(lambda: courier.stuck)
            name, renewed = worker.name, worker.beats.renewed
            await until(lambda: worker.beats.renewed > renewed + worker.beats.dead_after)
            assert worker.name == name
            assert (await asyncio.wait_for(run.result(), 60)).status == "final"
            courier.offer = super(Stuck, courier).offer  # it ends its work without being held up
    await service.close()


async def test_a_run_is_taken_over_in_time(where: str) -> None:
    """After `dead_after` and a beat from the last beat on, by a worker that was there before; where others work, too,
    within two seconds more."""
    service, took = opened(where), list[float]()
    async with client_of(service) as client, worker_of(service, steps(1), dead_after=1.0, heartbeat=0.1) as worker:
        await until(lambda: worker.beats.renewed - worker.beats._unbroken > worker.beats.dead_after)
        while len(took) < 5 and min(took, default=60.0) > 1.0 + 0.1 + 2.0:  # others may do more than is usual
            dead = f"dead-{len(took)}"
            row = worker_of(service, steps(1), dead_after=1.0, heartbeat=0.1).row(dead)
            run = await client.submit("Go.", user_id="ann", session_id=dead, labels=["dead's"])
            began = uptime()
            await client.registry.register(row)
            claimed, _ = await client.registry.claim(APP, dead, ["dead's"], 1, None)
            assert len(claimed) == 1
            await until_async(lambda run=run: is_taken(client.registry, run.id))
            took.append(uptime() - began)
            await run.cancel()
    assert 1.0 <= min(took) <= 1.0 + 0.1 + 2.0
    await service.close()


async def is_taken(registry: Registry, run_id: str) -> bool:
    """Whether a run is ready again."""
    row = await registry.find(run_id)
    return row is not None and row.status == "ready"


async def test_a_machine_whose_time_is_set_buries_no_worker(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither forward nor back: beats are told by the server's clock, or by one that is not set."""
    service, real = opened(where), time.time
    beats: dict[str, float] = {"heartbeat": 0.1, "dead_after": 60.0}
    async with (
        client_of(service) as client,
        worker_of(service, [], **beats) as one,
        worker_of(service, [], **beats) as two,
    ):
        names = [one.name, two.name]
        for each in (one, two):  # they have beaten for long enough to bury each other
            each.beats._unbroken -= 100.0
        for jump in (3600.0, -3600.0):
            monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
            renewed = two.beats.renewed
            await until(lambda renewed=renewed: min(one.beats.renewed, two.beats.renewed) > renewed + 0.2)
            assert [one.name, two.name] == names
            assert max(each.silent for each in await client.workers()) < 60.0
        monkeypatch.undo()
    await service.close()


async def test_a_worker_from_before_the_machine_was_started_anew_is_buried(tmp_path: Path) -> None:
    """Its beat is of a time that is yet to come."""
    service = opened(str(tmp_path / "fleet.db"))
    async with client_of(service) as client:
        row = worker_of(service, []).row("w1")._replace(holder="another boot")
        await client.registry.register(row)
        sql = "UPDATE flowloom_workers SET beat = beat + 1000000"
        await client.registry.write(lambda c: c.execute(sql), "test")
        await client.registry.register(row._replace(worker="w2"))
        for reaps, dead in ((False, []), (True, ["w1"])):
            heard = await client.registry.beat(row._replace(worker="w2"), reaps=reaps)
            assert heard is not None
            assert [name for name, *_ in heard.dead] == dead
    await service.close()


async def test_who_had_no_database_is_no_judge_of_others(where: str) -> None:
    """A worker buries those that it has not heard of only when its own beats have succeeded for `dead_after`."""
    service = opened(where)
    async with client_of(service) as client, worker_of(service, [], heartbeat=0.05, dead_after=0.6) as worker:
        await until(lambda: worker.beats.renewed - worker.beats._unbroken > 0.6)
        real, failing, failed = worker.registry.beat, [True], list[float]()

        async def beat(*args: Any, **options: Any) -> Any:
            if failing[0]:
                failed.append(uptime())
                raise StorageError("The database is away.")
            return await real(*args, **options)

        worker.registry.beat = beat
        quiet = worker_of(service, [], dead_after=0.3, heartbeat=0.1).row("quiet")
        await client.registry.register(quiet)
        await asyncio.sleep(0.4)  # by now it counts as dead
        await until(lambda: failed)
        failing[0] = False
        await until_async(lambda: is_buried(client))
        assert uptime() - failed[-1] >= 0.6
    await service.close()


async def is_buried(client: Any) -> bool:
    """Whether the quiet worker is gone."""
    return all(each.worker != "quiet" for each in await client.workers())
