"""`DbosCourier`: what DBOS has of a run, and that it is one for each process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import Awaitable, Sequence
from typing import Any

import psycopg
import pytest
from dbos import DBOS

from durable.fleet import WHO, client_of, opened, steps, worker_of
from flowloom.durable import DbosCourier, RunClient, SubmittedRun, dbos_courier
from flowloom.durable.courier import Deliver, Free
from flowloom.errors import ConfigurationError, StorageError
from flowloom.testing import call
from flowloom.testing.suites.courier_place import until

SOON = 60.0


class Watched(DbosCourier):
    """Knows the runs that it has brought."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.brought: list[str] = []

    async def serve(self, handle: Deliver, free: Free) -> None:
        async def take(run_ids: Sequence[str] | None = None) -> Sequence[Awaitable[None]]:
            self.brought += run_ids or ()
            return await handle(run_ids)

        await super().serve(take, free)


async def submitted_at_last(client: RunClient) -> SubmittedRun:
    """A run; connections that were cut are found out by those who use them."""
    for _ in range(20):
        with contextlib.suppress(StorageError):
            return await client.submit("Go.", **WHO, run_id="r1")
    raise AssertionError("Nothing could be submitted.")


async def none_taken(run_ids: Sequence[str] | None = None) -> Sequence[Awaitable[None]]:
    """A worker that claims nothing."""
    return ()


async def always_free() -> None:
    """A worker that has room."""


def rows(dsn: str) -> list[tuple[Any, ...]]:
    """What DBOS has of runs: status, serialization, version of the application."""
    with psycopg.connect(dsn) as connection:
        sql = "SELECT status, serialization, application_version FROM flowloom_dbos.workflow_status"
        return connection.execute(sql).fetchall()


async def test_dbos_brings_the_runs_and_keeps_nothing_of_them(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is offered once however often it is said, brought by its id, and its row deleted when its leg is over."""
    service = opened(postgres_dsn)
    courier, offering = Watched(postgres_dsn), DbosCourier(postgres_dsn)
    monkeypatch.setattr(courier, "ring", lambda: None)  # a worker that is rung looks for ready runs itself
    before = {*threading.enumerate()}
    async with client_of(service, courier=offering) as client:
        run = await client.submit("Go.", **WHO)
        await offering.offer([run.id, run.id])
        assert rows(postgres_dsn) == [("ENQUEUED", "portable_json", "flowloom")]
        async with worker_of(service, steps(1), courier=courier):
            assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
            await asyncio.sleep(0.1)
        assert {*courier.brought} == {run.id}  # it may be offered twice where the machine is busy
        assert rows(postgres_dsn) == []
    await service.close()
    left = [each.name for each in {*threading.enumerate()} - before if not each.name.startswith("asyncio_")]
    assert left == []


async def test_changing_the_courier_needs_no_migration(postgres_dsn: str) -> None:
    """What was submitted by a client without DBOS, before any worker was there, is brought by it."""
    service = opened(postgres_dsn)
    async with client_of(service) as client:
        runs = [await client.submit("Go.", user_id=f"u{number}", session_id="s") for number in range(3)]
        async with worker_of(service, ["Hi."] * 3, courier=DbosCourier(postgres_dsn)):
            for run in runs:
                assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
    await service.close()


async def test_rows_are_deleted_while_the_worker_works(postgres_dsn: str) -> None:
    """Not only when it ends."""
    service = opened(postgres_dsn)
    async with (
        client_of(service, courier=DbosCourier(postgres_dsn)) as client,
        worker_of(service, steps(1), courier=DbosCourier(postgres_dsn)),
    ):
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
        await until(lambda: not rows(postgres_dsn))
    await service.close()


async def test_a_row_that_makes_way_for_another_is_not_told_of(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBOS would log an error with its stack for each run that was taken over, or brought where there was no room."""
    told, going, told_of = list[str](), asyncio.Event(), logging.Handler()
    told_of.emit = lambda record: told.append(record.getMessage())

    async def wait() -> str:
        """Wait."""
        going.set()
        await until(lambda: not rows(postgres_dsn))
        return "done"

    logging.getLogger("dbos").addHandler(told_of)
    service, courier = opened(postgres_dsn), DbosCourier(postgres_dsn)
    monkeypatch.setattr(courier, "ring", lambda: None)  # a worker that is rung looks for ready runs itself
    async with (
        client_of(service, courier=DbosCourier(postgres_dsn)) as client,
        worker_of(service, [call("wait"), "Done."], wait, courier=courier),
    ):
        run = await client.submit("Go.", **WHO)
        await going.wait()
        with psycopg.connect(postgres_dsn) as connection:
            connection.execute("DELETE FROM flowloom_dbos.workflow_status")
        assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
        await asyncio.sleep(1.5)  # DBOS looks for the row for so long
    await service.close()
    logging.getLogger("dbos").removeHandler(told_of)
    assert told == []


async def test_a_second_worker_in_the_process_is_refused(postgres_dsn: str) -> None:
    """The error says to start another process; when the first is closed, there is room for another."""
    first, second = DbosCourier(postgres_dsn), DbosCourier(postgres_dsn)
    await first.check()
    with pytest.raises(ConfigurationError, match=r"another process \(`flowloom worker`\)"):
        await second.check()
    await first.close()
    await second.check()
    await second.close()
    await second.close()


async def test_a_program_that_uses_dbos_itself_is_told_to_have_workers_elsewhere(postgres_dsn: str) -> None:
    """Its DBOS is left as it is; clients can be beside it."""
    theirs = DBOS(config={"name": "theirs", "system_database_url": postgres_dsn})
    try:
        courier = DbosCourier(postgres_dsn)
        with pytest.raises(ConfigurationError, match="workers in processes of their own"):
            await courier.check()
        await courier.offer(["a run"])
        await courier.close()
        assert DBOS(config={"name": "again", "system_database_url": postgres_dsn}) is theirs
    finally:
        await asyncio.to_thread(DBOS.destroy)
    assert len(rows(postgres_dsn)) == 1


@pytest.mark.parametrize("dsn", ["runs.db", "sqlite:///runs.db", "dbname=a", "postgresql://host"])
def test_a_store_that_is_not_postgresql_is_refused(dsn: str) -> None:
    """The error names the courier for it."""
    with pytest.raises(ConfigurationError, match="StoreCourier"):
        DbosCourier(dsn)


async def test_runs_are_brought_again_when_the_database_was_away(postgres_dsn: str) -> None:
    """The worker keeps its DBOS meanwhile, and all that it had."""
    service = opened(postgres_dsn)
    courier = DbosCourier(postgres_dsn)
    async with (
        client_of(service, courier=DbosCourier(postgres_dsn)) as client,
        worker_of(service, steps(1), courier=courier),
    ):
        with psycopg.connect(postgres_dsn) as connection:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            connection.execute(f"{others} AND pid <> pg_backend_pid()")
        await asyncio.sleep(0.3)
        run = await submitted_at_last(client)
        assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
    await service.close()


async def test_an_offer_does_not_wait_for_a_process_that_was_stopped(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped while it had rows locked: what is submitted then is submitted, and offered again by a sweep."""
    monkeypatch.setattr(dbos_courier, "LOCKED_FOR", 0.1)
    service, courier = opened(postgres_dsn), DbosCourier(postgres_dsn)
    await courier.offer(["r1"])
    async with client_of(service, courier=courier) as client:
        with psycopg.connect(postgres_dsn) as stopped:
            stopped.execute("LOCK TABLE flowloom_dbos.workflow_status IN EXCLUSIVE MODE")
            with pytest.raises(StorageError, match="lock timeout"):
                await asyncio.wait_for(courier.offer(["r1"]), SOON)
            run = await asyncio.wait_for(client.submit("Go.", **WHO), SOON)
            assert (await run.info()).status == "ready"
        async with worker_of(service, steps(1), courier=DbosCourier(postgres_dsn)):
            assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
    await service.close()


async def test_the_server_ends_what_a_stopped_process_has_begun(postgres_dsn: str) -> None:
    """On all connections of the courier: those for offers, and those of DBOS."""
    service, courier = opened(postgres_dsn), DbosCourier(postgres_dsn)
    async with client_of(service) as client, worker_of(service, steps(1), courier=courier):
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
        engine, pool = courier._engine, courier._pool
        assert engine is not None
        assert pool is not None
        for each in (engine._sys_db.engine, pool):
            with each.connect() as connection:
                shown = connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar()
                assert shown == "5s"
    await service.close()


@pytest.mark.parametrize("opened_before", [False, True])
async def test_an_offer_that_is_cancelled_leaves_no_connection(postgres_dsn: str, opened_before: bool) -> None:
    """The courier closes when the thread that was in the database is out of it."""
    courier, other = DbosCourier(postgres_dsn), DbosCourier(postgres_dsn)
    await other.offer(["r1"])
    await other.close()
    if opened_before:
        await courier.offer(["r2"])
    with psycopg.connect(postgres_dsn) as locking:
        locking.execute("LOCK TABLE flowloom_dbos.workflow_status, flowloom_dbos.dbos_migrations")
        offer = asyncio.create_task(courier.offer(["r3"]))
        await asyncio.sleep(0.3)
        offer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await offer
        locking.rollback()
        locking.autocommit = True  # a transaction would see the same connections each time
        await courier.close()
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        await until(lambda: locking.execute(sql).fetchone() == (0,))  # a server's process takes its time to end


async def test_a_close_that_is_cancelled_or_done_twice_at_once_leaves_no_connection(postgres_dsn: str) -> None:
    """It is done to its end, and an offer that was about to open a connection leaves none either."""
    with psycopg.connect(postgres_dsn, autocommit=True) as looking:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        for opened_before in (True, False):
            courier = DbosCourier(postgres_dsn)
            offers = [asyncio.create_task(courier.offer(["r1"]))]
            await asyncio.wait(offers) if opened_before else await asyncio.sleep(0.01)
            closes = [asyncio.create_task(courier.close()) for _ in range(2)]
            await asyncio.sleep(0)
            closes[0].cancel()
            await asyncio.wait([*offers, *closes])
            await until(lambda: looking.execute(sql).fetchone() == (0,))


async def test_a_row_that_was_taken_and_never_begun_goes_with_its_worker(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DBOS was ended in between, and would keep it for ever; the run is brought to the next worker."""

    def end(*taken: object) -> None:
        ended.set()
        raise RuntimeError("Event loop is closed")

    ended = threading.Event()
    service, courier = opened(postgres_dsn), DbosCourier(postgres_dsn)
    async with client_of(service, courier=DbosCourier(postgres_dsn)) as client:
        with monkeypatch.context() as patch:
            patch.setattr("dbos._queue.execute_dequeued_workflow", end)
            await courier.check()
            serving = asyncio.create_task(courier.serve(none_taken, always_free))
            run = await client.submit("Go.", **WHO)
            await until(ended.is_set)
            assert [status for status, *_ in rows(postgres_dsn)] == ["PENDING"]
            serving.cancel()
            await asyncio.wait([serving])
            await courier.close()
        assert rows(postgres_dsn) == []
        async with worker_of(service, steps(1), courier=DbosCourier(postgres_dsn)):
            assert (await asyncio.wait_for(run.result(), SOON)).status == "final"
    await service.close()


async def test_a_database_that_is_not_there_is_a_storage_error() -> None:
    """At once, in a worker and in a client; this process's DBOS is free again."""
    dsn = "postgresql://user@127.0.0.1:1/none"
    for _ in range(2):
        courier = DbosCourier(dsn)
        with pytest.raises(StorageError):
            await courier.check()
        with pytest.raises(StorageError):
            await courier.offer(["a run"])
        await courier.close()


def test_dbos_is_not_loaded_until_it_is_asked_for() -> None:
    """Neither by `flowloom` nor by `flowloom.durable`."""
    code = "import sys, flowloom, flowloom.durable; sys.exit('dbos' in sys.modules or 'sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
