"""Leases that services share: fair among processes, quiet on the disk, and gone without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from flowloom import InMemorySessionService, PostgresSessionService, SessionBusyError, SqliteSessionService
from flowloom.sessions.sql_service import SqlSessionService

WHO: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s1"}


@pytest.fixture(params=["sqlite", "postgres"])
async def services(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[SqlSessionService]]:
    """Three services on one store, as three processes have them."""
    if request.param == "sqlite":
        opened: list[SqlSessionService] = [SqliteSessionService(tmp_path / "a.db") for _ in range(3)]
    else:
        dsn: str = request.getfixturevalue("postgres_dsn")
        opened = [PostgresSessionService(dsn, max_connections=3) for _ in range(3)]
    yield opened
    for each in opened:
        await each.close()


async def tickets(service: SqlSessionService) -> int:
    sql = "SELECT count(*) FROM flowloom_leases"
    return await service.database.read(lambda connection: connection.execute(sql).fetchone()[0])


async def until(service: SqlSessionService, count: int) -> None:
    """Wait until that many have a ticket."""
    for _ in range(2000):
        if await tickets(service) == count:
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"{await tickets(service)} have a ticket, not {count}")


async def test_processes_are_served_in_the_order_they_came(services: list[SqlSessionService]) -> None:
    """One that comes back at once does not overtake another that waits."""
    order: list[int] = []

    async def run(number: int, times: int) -> None:
        for _ in range(times):
            async with await services[number].acquire_lease(**WHO, wait=True):
                order.append(number)

    held = await services[0].acquire_lease(**WHO, wait=True)
    running: list[asyncio.Task[None]] = []
    for number in (1, 2):
        running.append(asyncio.create_task(run(number, 2)))
        await until(services[0], number + 1)
    await held.release()
    await asyncio.gather(*running)
    assert order == [1, 2, 1, 2]


async def test_only_one_has_the_session_whoever_comes(services: list[SqlSessionService]) -> None:
    inside = most = done = 0

    async def run(service: SqlSessionService) -> None:
        nonlocal inside, most, done
        async with await service.acquire_lease(**WHO, wait=True):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
        done += 1

    await asyncio.gather(*(run(service) for service in services for _ in range(5)))
    assert (most, done) == (1, 15)


async def test_a_released_lease_leaves_nothing(services: list[SqlSessionService]) -> None:
    """No row, no task, and no timer that would still do something."""
    tasks = asyncio.all_tasks()
    lease = await services[0].acquire_lease(**WHO, wait=True, seconds=0.03)
    assert asyncio.all_tasks() == tasks
    await lease.release()
    await until(services[0], 0)
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert await tickets(services[0]) == 0


async def test_a_waiter_that_is_cancelled_gives_its_ticket_back(services: list[SqlSessionService]) -> None:
    held = await services[0].acquire_lease(**WHO, wait=True)
    waiting = asyncio.create_task(services[1].acquire_lease(**WHO, wait=True))
    await until(services[0], 2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(services[0], 1)
    await held.release()
    await (await services[2].acquire_lease(**WHO, wait=True)).release()


async def test_a_lease_that_was_lost_is_no_error(services: list[SqlSessionService]) -> None:
    """A run whose process was stopped for too long goes on, and gives back nothing of another's."""
    lost = await services[0].acquire_lease(**WHO, wait=True)
    await services[1].database.write(lambda connection: connection.execute("UPDATE flowloom_leases SET expires = 0"))
    held = await services[1].acquire_lease(**WHO, wait=False)
    await lost.release()
    await services[0].database.flush()
    with pytest.raises(SessionBusyError):
        await services[2].acquire_lease(**WHO, wait=False)
    await held.release()


async def test_a_lease_may_be_released_after_its_service_was_closed(services: list[SqlSessionService]) -> None:
    lease = await services[0].acquire_lease(**WHO, wait=True)
    await services[0].close()
    await lease.release()


def test_runs_of_several_loops_wait_for_each_other() -> None:
    """A service in memory may be used by threads with loops of their own."""
    service = InMemorySessionService()
    order: list[str] = []

    async def in_thread() -> None:
        order.append("asked")
        async with await service.acquire_lease(**WHO, wait=True):
            order.append("there")

    async def main() -> None:
        async with await service.acquire_lease(**WHO, wait=True):
            other = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(in_thread())))
            while not order:  # noqa: ASYNC110 - another loop's
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)
            order.append("here")
        await other

    asyncio.run(main())
    assert order == ["asked", "here", "there"]


def test_a_waiter_whose_loop_has_ended_is_passed_over() -> None:
    service = InMemorySessionService()
    held = asyncio.run(service.acquire_lease(**WHO, wait=True))
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(service.acquire_lease(**WHO, wait=True))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    asyncio.run(held.release())
    asyncio.run(_take_and_release(service))
    assert not waiting.done()
    waiting._log_destroy_pending = False  # it never ends, as meant


async def _take_and_release(service: InMemorySessionService) -> None:
    await (await service.acquire_lease(**WHO, wait=False)).release()
