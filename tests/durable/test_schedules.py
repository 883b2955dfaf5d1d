"""Runs that are due at certain times."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from
from kit import examples

from durable.fleet import client_of, opened, steps, where, worker_of
from flowloom.durable import RunClient, Schedule
from flowloom.durable.schedules import submit_due
from flowloom.errors import ConfigurationError, InputValidationError

__all__ = ["where"]


def daily(name: str = "report", **options: Any) -> Schedule:
    values: dict[str, Any] = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "message": "Report.", "user_id": "ann"}
    return Schedule(**{"name": name, **values, **options})


def local(*moment: int) -> float:
    return datetime(*moment, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()  # type: ignore[misc]


def test_it_keeps_to_the_clock_of_its_zone() -> None:
    """In summer and in winter; on each day once, also where the clock is changed."""
    times = [daily().next_after(local(2026, 1, 10)), daily().next_after(local(2026, 7, 10))]
    assert times == [local(2026, 1, 10, 2, 30), local(2026, 7, 10, 2, 30)]
    for first in (local(2026, 3, 28, 12), local(2026, 10, 24, 12)):
        found = [each for each, _ in zip(daily().times(first), range(3), strict=False)]
        days = [datetime.fromtimestamp(each, ZoneInfo("Europe/Berlin")).day for each in found]
        assert len(set(days)) == 3, days


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": "every morning"},
        {"cron": "61 * * * *"},
        {"cron": "0 0 31 2 *"},
        {"timezone": "Mars/Olympus"},
        {"overlap": "maybe"},
        {"user_id": ""},
        {"labels": "gpu"},
    ],
)
def test_what_says_no_time_is_refused(wrong: dict[str, Any]) -> None:
    """When it is made, and not when it is due."""
    with pytest.raises(ConfigurationError):
        daily(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"name": 3}, {"user_id": ["ann"]}, {"session_id": 3}, {"cron": 5}, {"priority": "high"}, {"priority": 10**9}],
)
def test_what_no_run_can_have_is_refused_with_its_schedule(wrong: dict[str, Any]) -> None:
    """A worker could not submit it, nor what is due after it."""
    with pytest.raises(InputValidationError, match=next(iter(wrong))):
        daily(**wrong)


@pytest.mark.parametrize("message", [[], types.Part.from_function_call(name="pay", args={})])
def test_a_schedule_needs_a_message(message: Any) -> None:
    """One that a run can begin with."""
    with pytest.raises(InputValidationError):
        daily(message=message)


async def test_schedules_are_put_listed_and_deleted(where: str) -> None:
    """By their names; the same name again replaces one."""
    service = opened(where)
    async with client_of(service) as client:
        due = await client.schedules.put(daily())
        await client.schedules.put(daily("other", cron="0 7 * * *"))
        await client.schedules.put(daily("other", cron="0 8 * * *"))
        found = await client.schedules.list()
        assert [(each.schedule.name, each.schedule.cron) for each in found] == [
            ("other", "0 8 * * *"),
            ("report", "30 2 * * *"),
        ]
        assert found[1].next_due == due
        assert (await client.schedules.delete("other"), await client.schedules.delete("other")) == (True, False)
    await service.close()


async def moved(client: RunClient, seconds: float) -> None:
    """Let the schedules be due so many seconds earlier than they are."""
    sql = "UPDATE flowloom_schedules SET next_due = next_due - ?"
    await client.registry.write(lambda c: c.execute(sql, (seconds,)), "test")


async def test_what_is_due_is_submitted_once(where: str) -> None:
    """Whoever wakes first, among several; and run by a worker."""
    service = opened(where)
    async with client_of(service) as client:
        due = await client.schedules.put(daily())
        await moved(client, due - time.time() + 1)
        async with worker_of(service, steps(1)), worker_of(service, steps(1)):
            for _ in range(6000):
                if runs := await client.list():
                    break
                await asyncio.sleep(0.01)
            result = await asyncio.wait_for((await client.attach(runs[0].run_id)).result(), 60)
            assert result.status == "final"
            assert len(await client.list()) == 1
        (found,) = await client.schedules.list()
        assert found.last_run is not None
        assert found.last_run.run_id == runs[0].run_id
    await service.close()


@pytest.mark.parametrize(("catch_up", "overlap", "count"), [(False, "queue", 1), (True, "queue", 4), (True, "skip", 1)])
async def test_times_that_passed_without_a_worker(where: str, catch_up: bool, overlap: Any, count: int) -> None:
    """The latest of them is made good, or all; one that overlaps with a run is left out, or waits behind it."""
    service = opened(where)
    async with client_of(service) as client:
        schedule = daily(cron="0 0 * * *", timezone="UTC", catch_up=catch_up, overlap=overlap, session_id="s1")
        await client.schedules.put(schedule)
        await moved(client, 24 * 3600 * 4)
        setting = client.registry.setting
        for _ in range(2):
            await client.registry.write(lambda c: submit_due(c, setting, client.app_name), "test")
        assert len(await client.list()) == count
        (found,) = await client.schedules.list()
        assert found.next_due > (await client.list())[0].created
    await service.close()


async def test_of_however_many_times_that_passed_the_latest_is_made_good(where: str) -> None:
    service = opened(where)
    async with client_of(service) as client:
        first = await client.schedules.put(daily(cron="* * * * *", session_id="s1"))
        await moved(client, 60 * 5000)
        setting = client.registry.setting
        await client.registry.write(lambda c: submit_due(c, setting, client.app_name), "test")
        [run] = await client.list()
        [found] = await client.schedules.list()
        due = int(run.run_id.rpartition(":")[2])
        assert (due - int(first)) % 60 == 0
        assert found.next_due - due == 60 > run.created - due >= 0
    await service.close()


@given(
    cron=sampled_from(["30 2 * * *", "0 * * * *", "*/20 1-3 * * sun", "0 0 29 2 *"]),
    after=integers(1_700_000_000, 1_760_000_000),
    span=integers(0, 3_000_000),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_latest_time_is_the_last_of_those_that_passed(cron: str, after: int, span: int) -> None:
    """Through the nights in which the clocks change, too; the time from which it is looked for is one of them."""
    schedule = daily(cron=cron)
    passed = [after, *takewhile(lambda due: due <= after + span, schedule.times(after))]
    assert schedule.latest(after, after + span) == passed[-1]


async def test_a_time_whose_run_is_another_one_is_left_out(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """The times after it are not."""
    service = opened(where)
    async with client_of(service) as client:
        due = await client.schedules.put(daily(cron="* * * * * *", catch_up=True, session_id="s1"))
        taken = f"{client.app_name}:report:{int(due)}"
        await client.submit("Go.", user_id="bob", session_id="b", run_id=taken, delay=1000)
        async with worker_of(service, ["Hi."] * 20):
            while not await client.list(user_id="ann"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert "leaves out a time" in caplog.text
    await service.close()


async def test_a_schedule_that_cannot_be_read_keeps_nothing_else(where: str) -> None:
    """Others are submitted, and runs that have not begun by their time are cancelled, all the same."""
    service = opened(where)
    async with client_of(service) as client:
        await client.schedules.put(daily())
        broken = "UPDATE flowloom_schedules SET schedule = '{}', next_due = 0"
        await client.registry.write(lambda c: c.execute(broken), "test")
        await client.schedules.put(daily("second", labels=("none has it",)))
        passed = "UPDATE flowloom_schedules SET next_due = 1 WHERE name = 'second'"
        await client.registry.write(lambda c: c.execute(passed), "test")
        run = await client.submit("Go.", user_id="ann", session_id="s1", labels=["none has it"], expires=0.2)
        async with worker_of(service, []):
            assert (await asyncio.wait_for(run.result(), 60)).status == "cancelled"
        (second,) = await client.list(status="ready")
        assert second.run_id.startswith("travel:second:")
    await service.close()


def test_a_schedule_has_no_years() -> None:
    """So that it comes to no end."""
    with pytest.raises(ConfigurationError, match="six fields"):
        daily(cron="0 0 1 1 * 0 2027")
