"""Leases that services share: fair among processes, quiet on the disk, and gone without a trace."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit import event

from flowloom import InMemorySessionService, PostgresSessionService, Session, SqliteSessionService
from flowloom.errors import RunLostError, SessionBusyError
from flowloom.sessions import SessionLease, sql_holders
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.sql import Connection

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


async def taken_over(service: SqlSessionService) -> SessionLease:
    """The lease of the session, as another process gets it when the holder was not heard of for too long."""
    await service.database.write(lambda connection: connection.execute("UPDATE flowloom_leases SET expires = 0"))
    return await service.acquire_lease(**WHO, wait=False)


async def get(service: SqlSessionService) -> Session:
    found = await service.get_session(**WHO)
    assert found is not None
    return found


async def texts(service: SqlSessionService) -> list[str]:
    return [each.text for each in (await get(service)).events]


async def test_a_lease_that_was_lost_gives_back_nothing(services: list[SqlSessionService]) -> None:
    """Releasing it does nothing to the one who has it now."""
    lost = await services[0].acquire_lease(**WHO, wait=True)
    held = await taken_over(services[1])
    await lost.release()
    await services[0].database.flush()
    with pytest.raises(SessionBusyError):
        await services[2].acquire_lease(**WHO, wait=False)
    await held.release()


async def test_whoever_takes_a_session_raises_its_epoch(services: list[SqlSessionService]) -> None:
    """Each service does, one after the other."""
    await services[0].create_session(**WHO)
    sql = "SELECT epoch FROM flowloom_sessions"
    for expected, service in enumerate(services, 1):
        async with await service.acquire_lease(**WHO, wait=True):
            found = await service.database.read(lambda connection: connection.execute(sql).fetchone()[0])
            assert found == expected


@pytest.mark.parametrize("there", [True, False], ids=["there", "made under the lease"])
async def test_who_lost_the_session_appends_nothing_more(services: list[SqlSessionService], there: bool) -> None:
    """Neither at once nor soon, whether the session was there when the lease was taken or not."""
    if there:
        await services[0].create_session(**WHO)
    lost = await services[0].acquire_lease(**WHO, wait=True)
    held = await taken_over(services[1])
    if not there:
        await services[1].create_session(**WHO)
    stale, soon = await get(services[0]), await get(services[0])
    mine = await get(services[1])
    await services[1].append_event(mine, event("agent", "one"))
    await services[0].append_buffered(soon, event("agent", "soon"))
    await services[0].flush()
    for append in (services[0].append_event, services[0].append_buffered):
        for session in (stale, soon):
            with pytest.raises(RunLostError) as raised:
                await append(session, event("agent", "stale"))
            assert isinstance(raised.value, SessionBusyError)
            assert (raised.value.session_id, raised.value.retry_after) == ("s1", 30.0)
    await services[1].append_event(mine, event("agent", "two"))
    await held.release()
    await lost.release()
    with pytest.raises(RunLostError):
        await services[0].append_event(stale, event("agent", "stale"))
    assert await texts(services[2]) == ["one", "two"]
    await services[0].append_event(await get(services[0]), event("user", "three"))  # for no run
    assert await texts(services[2]) == ["one", "two", "three"]


async def test_a_run_that_was_replaced_does_not_write_to_what_was_made_anew(services: list[SqlSessionService]) -> None:
    """A session of the same name that another process has deleted, made and taken is another one."""
    await services[0].create_session(**WHO)
    lost = await services[0].acquire_lease(**WHO, wait=True)
    stale = await get(services[0])
    held = await taken_over(services[1])
    await services[1].delete_session(**WHO)
    await services[1].create_session(**WHO)
    async with held:
        with pytest.raises(RunLostError):
            await services[0].append_event(stale, event("agent", "stale"))
    await lost.release()
    assert await texts(services[2]) == []


async def test_a_run_may_make_its_session_anew(services: list[SqlSessionService]) -> None:
    """As long as it has the lease, the session is its own, whoever has made it."""
    for deleting in services[:2]:
        await services[0].get_or_create_session(**WHO)
        async with await services[0].acquire_lease(**WHO, wait=True):
            session = await get(services[0])
            await deleting.delete_session(**WHO)
            await deleting.create_session(**WHO)
            await services[0].append_event(session, event("agent", "new"))
        assert await texts(services[2]) == ["new"]


async def test_runs_of_one_process_keep_the_session(services: list[SqlSessionService]) -> None:
    """However fast they follow each other; what is appended after a run belongs to none, and is stored."""
    await services[0].create_session(**WHO)
    sessions: list[Session] = []
    for number in range(4):
        async with await services[0].acquire_lease(**WHO, wait=True):
            sessions.append(await get(services[0]))
            await services[0].append_event(sessions[-1], event("agent", str(number)))
    async with await services[1].acquire_lease(**WHO, wait=True):
        await services[0].append_event(sessions[0], event("agent", "summary"))
    assert await texts(services[2]) == ["0", "1", "2", "3", "summary"]


async def test_a_holder_asks_for_its_session_only_when_it_was_not_renewed_for_long(
    services: list[SqlSessionService],
) -> None:
    """`Fence.check` renews a lease that is past half its time, and raises if another has it."""
    await services[0].create_session(**WHO)
    lease = await services[0].acquire_lease(**WHO, wait=True)
    assert lease.fence is not None
    renewed = lease.fence.renewed
    await lease.fence.check()
    assert lease.fence.renewed == renewed
    lease.fence.renewed -= 16
    await lease.fence.check()
    assert lease.fence.renewed >= renewed
    held = await taken_over(services[1])
    await lease.fence.check()
    lease.fence.renewed -= 16
    for _ in range(2):
        with pytest.raises(RunLostError):
            await lease.fence.check()
    await lease.release()
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


async def test_a_lease_that_could_not_be_given_back_keeps_its_own_process_waiting_for_nothing(
    services: list[SqlSessionService],
) -> None:
    """The next run has it at once, and hears nothing of the error."""
    service = services[0]
    lease = await service.acquire_lease(**WHO, wait=True)
    await service.database.write(lambda c: c.execute("ALTER TABLE flowloom_leases RENAME TO elsewhere"))
    await lease.release()
    await service.flush()
    await service.database.write(lambda c: c.execute("ALTER TABLE elsewhere RENAME TO flowloom_leases"))
    assert await tickets(service) == 1
    await (await service.acquire_lease(**WHO, wait=False)).release()
    await until(service, 0)


# -- processes that are gone -------------------------------------------------------------------------


def gone() -> str:
    """What a process called itself that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    name = " ".join([*_myself()[:2], str(process.pid), started(process.pid)])
    process.communicate()
    return name


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _myself() -> list[str]:
    mine = sql_holders.this_process()
    assert mine is not None
    return mine.split(" ")


async def held_by(holder: str | None, service: SqlSessionService, tickets: int = 1) -> None:
    """Leave tickets in the line of the session, as a process leaves them."""

    def leave(connection: Connection) -> None:
        for number in range(tickets):
            values = (WHO["app_name"], WHO["user_id"], WHO["session_id"], number + 1, f"o{number}", 4e9, holder)
            connection.execute("INSERT INTO flowloom_leases VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    await service.create_session(**WHO)
    await service.database.write(leave)


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes")


@linux
async def test_the_lease_of_a_process_that_is_gone_is_free(services: list[SqlSessionService]) -> None:
    """So is the place of each that waited; whether one is to wait or not."""
    await held_by(gone(), services[0], 3)
    await (await services[0].acquire_lease(**WHO, wait=False)).release()
    await until(services[1], 0)


@linux
async def test_a_process_that_has_the_number_of_one_that_is_gone_holds_nothing(
    services: list[SqlSessionService],
) -> None:
    """The time of its start tells them apart."""
    *where, ticks = _myself()
    await held_by(" ".join([*where, str(int(ticks) - 1)]), services[0])
    await (await services[0].acquire_lease(**WHO, wait=False)).release()


@linux
async def test_what_is_not_known_to_be_gone_keeps_its_lease(services: list[SqlSessionService]) -> None:
    """Of another boot or machine, another namespace, of nobody's name, or alive: only time tells."""
    boot, namespace, pid, ticks = gone().split(" ")
    me = _myself()
    await held_by(None, services[0])
    for holder in (
        None,
        "",
        "what is this",
        f"{boot[::-1]} {namespace} {pid} {ticks}",
        f"{boot} pid:[1] {pid} {ticks}",
        f"{boot} {namespace} x {ticks}",
        " ".join(me),
        " ".join([*me[:2], "1", started(1)]),
    ):
        sql = "UPDATE flowloom_leases SET holder = ?"
        await services[0].database.write(lambda c, sql=sql, holder=holder: c.execute(sql, (holder,)))
        with pytest.raises(SessionBusyError):
            await services[0].acquire_lease(**WHO, wait=False)


@linux
async def test_a_lease_that_was_not_given_back_is_told_of_once(
    services: list[SqlSessionService], caplog: pytest.LogCaptureFixture
) -> None:
    """A line at WARNING says which session it was, and why nobody waits for it any more."""
    await held_by(gone(), services[0])
    lease = await services[1].acquire_lease(**WHO, wait=False)
    await (await taken_over(services[2])).release()
    await lease.release()
    lines = [record.getMessage() for record in caplog.records]
    start = "The lease of session `s1` was not given back, and is taken over: "
    assert lines == [start + "its process has ended.", start + "it was not renewed."]
    assert {(record.name, record.levelname) for record in caplog.records} == {("flowloom.sessions", "WARNING")}


def test_what_is_left_of_a_process_until_its_parent_asks_is_gone() -> None:
    """It can do nothing any more."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        name = " ".join([*_myself()[:2], str(process.pid), started(process.pid)])
        assert not sql_holders.is_gone(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert sql_holders.is_gone(name)
    finally:
        process.kill()
        process.communicate()
