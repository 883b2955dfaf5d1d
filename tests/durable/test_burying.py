"""A worker that is buried while it claims a run: one of the two comes first, and the run is not lost between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from durable.fleet import APP, WHO, client_of, opened, runner_of
from flowloom.durable import Worker, sql_runs
from flowloom.durable.registry import Registry
from flowloom.sql.postgres import PostgresConnection


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
