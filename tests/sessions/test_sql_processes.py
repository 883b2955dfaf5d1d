"""Several processes on one store: writers at once, writers that are killed, and leases of the dead."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kit import event

from flowloom import PostgresSessionService, SqliteSessionService
from flowloom.errors import SessionBusyError
from flowloom.sessions.sql_service import SqlSessionService

WHO: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s1"}
PROGRAM = """
import asyncio, sys
from flowloom import Event, EventActions, PostgresSessionService, SqliteSessionService
who = dict(app_name="app", user_id="ann", session_id="s1")
what, where, name, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

async def write(service):
    session = await service.get_or_create_session(**who)
    print("ready", flush=True)
    for number in range(count):
        made = Event(id=f"{name}-{number}", author="a", actions=EventActions(state_delta={f"{name}": number}))
        if number % 2:
            await service.append_buffered(session, made)
            made = Event(id=f"{name}-{number}-more", author="a")
        await service.append_event(session, made)
        print(made.id, flush=True)

async def hold(service):
    lease = await service.acquire_lease(**who, wait=True)
    print("ready", flush=True)
    await asyncio.sleep(60)

async def main():
    service = (PostgresSessionService if "://" in where else SqliteSessionService)(where)
    await {"write": write, "hold": hold}[what](service)
    await service.close()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "a.db") if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")


def service_at(where: str) -> SqlSessionService:
    return PostgresSessionService(where) if "://" in where else SqliteSessionService(where)


def start(what: str, where: str, name: str = "x", count: int = 0) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-W", "error", "-c", PROGRAM, what, where, name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def lines(process: subprocess.Popen[str]) -> list[str]:
    """All that a process says until it ends."""
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.read().split()
    process.wait()
    return said


async def stored(where: str) -> list[str]:
    """The ids of the events of the session, checked to be numbered without a gap."""
    service = service_at(where)
    session = await service.get_session(**WHO)
    sql = "SELECT place % 4294967296 FROM flowloom_events ORDER BY place"
    seqs = await service.database.read(lambda connection: [row[0] for row in connection.execute(sql).fetchall()])
    await service.close()
    assert session is not None
    assert seqs == list(range(1, len(seqs) + 1))
    return [each.id for each in session.events]


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.soak)])
def test_processes_at_once_lose_no_event(where: str, count: int) -> None:
    """Nor is there a gap in `seq`, nor does one of them fail, although all of them make the tables."""
    processes = [start("write", where, f"p{number}", 20) for number in range(count)]
    said = [lines(each)[1:] for each in processes]
    assert [each.returncode for each in processes] == [0] * count
    found = asyncio.run(stored(where))
    assert len(found) == len(set(found)) == count * 30
    for number, ids in enumerate(said):
        mine = [each for each in found if each.startswith(f"p{number}-")]
        assert len(mine) == 30
        assert [each for each in mine if each in ids] == ids


@pytest.mark.soak
def test_a_killed_process_loses_nothing_that_was_stored(where: str) -> None:
    """What `append_event` returned from is there, and the log goes on without a gap."""
    for round in range(3):
        process = start("write", where, f"k{round}", 10**6)
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(20 + round)][1:]
        process.kill()
        said += lines(process)
        found = asyncio.run(stored(where))
        assert set(said[:-1]) <= set(found)  # the last line may be cut off
        assert len(found) == len(set(found))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes")
def test_the_lease_of_a_killed_process_is_taken_over_at_once(where: str) -> None:
    """Another process of the machine need not wait for its end; while the holder lives, it has to."""
    process = start("hold", where)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"

    async def take_over() -> float:
        service = service_at(where)
        with pytest.raises(SessionBusyError) as refused:
            await service.acquire_lease(**WHO, wait=False)
        assert 5 < refused.value.retry_after <= 30
        waiting = asyncio.create_task(service.acquire_lease(**WHO, wait=True))
        await asyncio.sleep(0.01)
        process.kill()
        lines(process)
        began = time.monotonic()
        lease = await waiting
        took = time.monotonic() - began
        await lease.release()
        await service.close()
        return took

    assert asyncio.run(take_over()) < 15


async def test_fifty_writers_on_one_postgres_session_lose_no_event(postgres_dsn: str) -> None:
    """As many services, each with connections of its own."""
    services = [PostgresSessionService(postgres_dsn, max_connections=1) for _ in range(50)]
    await services[0].create_session(**WHO)

    async def write(service: SqlSessionService) -> None:
        session = await service.get_session(**WHO)
        assert session is not None
        for number in range(4):
            made = event("agent", str(number))
            made.actions.state_delta = {"shared": number, "user:u": number, "app:p": number}
            await service.append_event(session, made)

    await asyncio.gather(*(write(service) for service in services))
    for service in services:
        await service.close()
    assert len(await stored(postgres_dsn)) == 200
