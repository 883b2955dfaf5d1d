"""What a fleet cannot do: each time a typed error that says what to do."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from durable.fleet import WHO, client_of, opened, steps, where, worker_of
from flowloom import ConfigurationError, FunctionTool, SqliteSessionService
from flowloom.durable import QueueFullError, RunNotFoundError, StoreCourier, SubmittedRun
from flowloom.errors import AlreadyAnsweredError, StorageError
from flowloom.sql import postgres
from flowloom.testing import call

__all__ = ["where"]


async def test_a_run_that_is_unknown(where: str) -> None:
    """It was never submitted here, or is long over; its log is where it was."""
    service = opened(where)
    async with client_of(service) as client:
        for ask in (client.attach, client.retry, client.cancel):
            with pytest.raises(RunNotFoundError, match=r"never submitted to this app and store.*log is in its session"):
                await ask("e-nothing")
    await service.close()


@asynccontextmanager
async def waiting_for_approval(where: str) -> AsyncGenerator[SubmittedRun]:
    """A run whose call waits for a person, and that no worker has."""
    service = opened(where)

    def pay() -> str:
        """Pay."""
        return "paid"

    async with client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        async with worker_of(service, [call("pay")], FunctionTool(pay, require_confirmation=True)):
            assert (await run.result()).status == "paused"
        yield run
    await service.close()


async def test_a_second_answer(where: str) -> None:
    """A decision is made once, also while the first one waits in the registry for a worker."""
    async with waiting_for_approval(where) as run:
        (asked,) = await run.pending()
        await run.answer(asked.approve())
        await run.answer(asked.approve())
        with pytest.raises(AlreadyAnsweredError, match="made once: nothing of the message was stored"):
            await run.answer(asked.reject("no"))


async def test_a_cancelled_run_waits_for_nobody(where: str) -> None:
    """Nobody is asked what its session still asks for."""
    async with waiting_for_approval(where) as run:
        assert len(await run.pending()) == 1
        assert await run.cancel() == "cancelled"
        assert (await run.pending(), (await run.result()).pending) == ([], [])


async def test_a_full_queue(where: str) -> None:
    """It says how many wait, and when to try again; what is over makes room."""
    service = opened(where)
    async with client_of(service, max_waiting=1) as client:
        first = await client.submit("Go.", **WHO)
        with pytest.raises(QueueFullError, match="try again later, or have more workers") as full:
            await client.submit("Go.", user_id="bob", session_id="s")
        assert full.value.retry_after == 5.0
        await first.cancel()
        await client.submit("Go.", user_id="bob", session_id="s")
    await service.close()


def test_a_courier_without_its_extra() -> None:
    """It says what to install; until it is asked for, the package neither needs nor mentions it."""
    code = (
        "import sys; sys.modules['dbos'] = None\n"
        "import flowloom, flowloom.durable\n"
        "from flowloom.errors import MissingExtraError\n"
        "try: flowloom.durable.DbosCourier('postgresql://u@h/d')\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert 'pip install "flowloom[dbos]"' in done.stdout


async def test_a_store_of_a_newer_release(where: str) -> None:
    """Neither a client nor a worker uses its tables."""
    service = opened(where)
    async with client_of(service) as client:
        await client.submit("Go.", **WHO)
        sql = "INSERT INTO flowloom_schemas (name, version) VALUES ('durable', 99)"
        await client.registry.write(lambda c: c.execute(sql), "test")
    await service.close()
    again = opened(where)
    async with client_of(again) as client:
        with pytest.raises(StorageError, match=r"of version 99.*Use the release that wrote them, or a newer one"):
            await client.submit("Go.", **WHO)
        with pytest.raises(StorageError, match="of version 99"):
            await worker_of(again, steps(0)).__aenter__()
    await again.close()


async def test_a_server_that_is_too_old(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the version that is needed."""
    monkeypatch.setattr(postgres, "OLDEST", 990_000)
    service = opened(postgres_dsn)
    async with client_of(service) as client:
        with pytest.raises(ConfigurationError, match=r"is too old: flowloom needs 99 or newer. Upgrade the server"):
            await client.submit("Go.", **WHO)
    await service.close()


def test_a_sqlite_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the version that is needed."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(ConfigurationError, match=r"too old: flowloom needs 3.35 or newer"):
        SqliteSessionService(tmp_path / "a.db")


def test_a_courier_that_looks_all_the_time(tmp_path: Path) -> None:
    """Between two looks there is a pause."""
    with pytest.raises(ConfigurationError, match="above 0 seconds"):
        StoreCourier(opened(str(tmp_path / "a.db")), "travel", poll=0)


async def test_the_events_behind_fewer_than_none_are_all(where: str) -> None:
    """Not none."""
    service = opened(where)
    async with client_of(service) as client, worker_of(service, ["Hi."]):
        run = await client.submit("Go.", **WHO)
        await asyncio.wait_for(run.result(), 60)
        assert [event.text async for event in run.events(after=-1)] == ["Go.", "Hi."]
    await service.close()
