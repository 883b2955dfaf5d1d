"""The registry forgets runs that are long over, and no others."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest

from durable.fleet import WHO, client_of, opened, where, worker_of
from flowloom.durable import RunNotFoundError, Schedule, registry, schedules, worker
from flowloom.durable.registry import Registry
from flowloom.testing.suites.courier_place import until, until_async

__all__ = ["where"]
SOON = 60.0


async def test_a_worker_drops_runs_that_are_long_over(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; those that wait stay, and so do the logs."""
    monkeypatch.setattr(worker, "_FORGETTING", 0.1)
    monkeypatch.setattr(registry, "_FORGOTTEN_AT_ONCE", 2)
    service = opened(where)
    async with client_of(service) as client:
        paused = await client.submit("Go.", user_id="bob", session_id="s1")
        await paused.pause()
        waiting = await client.submit("Go.", user_id="cem", session_id="s1", delay=600)
        cancelled = await client.submit("Go.", user_id="dan", session_id="s1")
        await cancelled.cancel()
        async with worker_of(service, ["Hi."] * 4):
            runs = [await client.submit("Go.", **WHO) for _ in range(4)]
            for run in runs:
                assert (await asyncio.wait_for(run.result(), SOON)).status == "final"

        async def all_dropped() -> bool:
            return {info.run_id for info in await client.list()} == {paused.id, waiting.id}

        async with worker_of(service, [], keep_runs=0.1):
            await until_async(all_dropped)
        for run in (*runs, cancelled):
            with pytest.raises(RunNotFoundError, match="its row was dropped"):
                await client.attach(run.id)
        session = await service.get_session(app_name=client.app_name, **WHO)
        assert session is not None
        assert [event.text for event in session.events] == ["Go.", "Hi."] * 4
    await service.close()


async def test_runs_that_ended_lately_are_kept(where: str) -> None:
    """As long as `keep_runs` says."""
    service = opened(where)
    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        await run.cancel()
        await Registry(service).forget_ended(60)
        assert (await run.info()).status == "cancelled"
    await service.close()


async def test_a_schedule_goes_on_when_its_latest_run_was_dropped(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows of no latest run then, and the next one comes at its time."""
    service = opened(where)
    async with client_of(service) as client:
        await client.schedules.put(Schedule("tick", "* * * * *", "UTC", "Go.", user_id="ann"))
        kept = Registry(service)
        for _ in range(2):
            with monkeypatch.context() as then:
                then.setattr(schedules, "now", lambda *_: time.time() + 3600)
                await kept.submit_due(client.app_name)
            [listed] = await client.schedules.list()
            assert listed.last_run is not None
            await (await client.attach(listed.last_run.run_id)).cancel()
            await kept.forget_ended(-1)
            [listed] = await client.schedules.list()
            assert listed.last_run is None
            await client.schedules.put(listed.schedule)
    await service.close()


async def test_a_run_that_is_retried_meanwhile_is_not_dropped(postgres_dsn: str) -> None:
    """The transaction that goes on with it is committed while the row is about to be deleted."""
    service = opened(postgres_dsn)
    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        await run.cancel()
        with psycopg.connect(postgres_dsn) as other, psycopg.connect(postgres_dsn, autocommit=True) as looking:
            other.execute("UPDATE flowloom_runs SET status = 'ready', ended = NULL")
            dropping = asyncio.create_task(Registry(service).forget_ended(-1))
            waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM flow%'"
            await until(lambda: looking.execute(waits).fetchone() is not None)
            other.commit()
            await asyncio.wait_for(dropping, SOON)
        assert (await run.info()).status == "ready"
    await service.close()
