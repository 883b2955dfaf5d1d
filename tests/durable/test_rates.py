"""Rates of models in shares: the fleet never exceeds the limit, and calls write nothing while the share lasts."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from typing import Any

import pytest
from google.genai import types

from durable.fleet import APP, client_of, opened, where
from flowloom import LlmAgent, LlmResponse, Runner
from flowloom.durable import ModelLimit, Worker, rates
from flowloom.durable.rates import KEPT, LONGEST, Rate, draw
from flowloom.sessions.leases import uptime
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import ScriptedModel
from flowloom.testing.scripted import response_of
from flowloom.testing.suites.courier_place import until

__all__ = ["where"]
HORIZON = 300.0


class Time:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.moment = 0.0

    def __call__(self, *_: object) -> float:
        return self.moment


class Fleet:
    """Workers that share a rate, on a clock of the test; `calls` are the times at which they called, `draws` counts how
    often they wrote to the store."""

    def __init__(self, per_minute: float, clock: Time) -> None:
        self.per_minute, self.clock = per_minute, clock
        self.store = sqlite3.connect(":memory:", isolation_level=None)
        self.store.execute("CREATE TABLE flowloom_rates (place TEXT PRIMARY KEY, next REAL NOT NULL)")
        self.calls: list[float] = []
        self.draws = 0

    def join(self) -> Rate:
        return Rate(self.per_minute, self.clock)

    def call(self, rate: Rate, heartbeat: float, workers: int) -> float:
        """Call as a worker does that thinks there are so many: when the call begins."""
        begins = rate.take()
        if begins is None:
            self.draws += 1
            share = rate.share(heartbeat, workers)
            saved = min(heartbeat, LONGEST) if share else 0.0
            wait = draw(self.store, "sqlite", "m", max(share, 1) * rate.each, saved)
            if share > 1:
                rate.add(share - 1, wait + rate.each, self.clock.moment)
            begins = self.clock.moment + wait
        self.calls.append(max(begins, self.clock.moment))
        return self.calls[-1]

    def most_in_a_minute(self) -> int:
        found, first = sorted(self.calls), 0
        most = 0
        for number, moment in enumerate(found):
            while found[first] <= moment - 60.0 + 1e-6:
                first += 1
            most = max(most, number + 1 - first)
        return most


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The time of the store and of all workers."""
    clock = Time()
    monkeypatch.setattr(rates, "now", clock)
    return clock


@pytest.mark.parametrize("per_minute", [5, 40, 300, 3000])
@pytest.mark.parametrize("seed", range(6))
def test_no_minute_has_more_calls_than_the_limit(clock: Time, seed: int, per_minute: int) -> None:
    """Whatever workers there are, busy or idle, joining and dying, and however many each one thinks there are."""
    chance, fleet = random.Random(seed), Fleet(per_minute, clock)
    clock.moment = 1000.0
    workers = [(fleet.join(), clock.moment) for _ in range(chance.randint(1, 5))]
    begins_idling, ends_idling = 1070.0, 0.0
    while clock.moment < 1000.0 + HORIZON:
        clock.moment += chance.expovariate(per_minute / 60.0 * 2)
        if clock.moment > begins_idling:  # for a while, there is little to do
            ends_idling, begins_idling = clock.moment + chance.uniform(1, 20), clock.moment + chance.uniform(25, 90)
        if clock.moment < ends_idling:
            clock.moment += chance.uniform(0.0, 4.0)
        if chance.random() < 3 / per_minute and len(workers) > 1:
            workers.pop(chance.randrange(len(workers)))
        if chance.random() < 3 / per_minute:
            workers.append((fleet.join(), clock.moment))
        number = chance.randrange(len(workers))
        rate, free = workers[number]
        if free <= clock.moment:  # a worker has a few calls at once, which wait
            count = chance.randint(1, 6)
            began = [fleet.call(rate, chance.choice([0.1, 2.0, 30.0]), chance.randint(1, 6)) for _ in range(count)]
            workers[number] = rate, max(began)
    assert per_minute * 0.7 < fleet.most_in_a_minute() <= per_minute


def test_what_is_not_used_in_time_is_lost(clock: Time) -> None:
    """After a pause, no more than a small burst begins at once."""
    fleet = Fleet(600, clock)
    rate = fleet.join()
    fleet.call(rate, 2.0, 1)
    clock.moment = 500.0
    count = sum(fleet.call(rate, 2.0, 1) == 500.0 for _ in range(100))
    assert count <= 600 / 60 * (LONGEST + KEPT)


def test_all_of_a_limit_can_be_had(clock: Time) -> None:
    """By one worker of several, too, whose share alone would be less; and all but what is held back for the edges."""
    fleet = Fleet(600, clock)
    rate = fleet.join()
    while clock.moment < 120.0:
        clock.moment = max(fleet.call(rate, 2.0, 4), clock.moment)
    assert 600 * 60 / 64 - 1 <= fleet.most_in_a_minute() <= 600


def test_workers_that_are_busy_have_equal_shares(clock: Time) -> None:
    """And one that died leaves its share to the others."""
    fleet = Fleet(1200, clock)
    workers = [fleet.join() for _ in range(4)]

    def work(seconds: float, living: int) -> list[int]:
        free, made = [clock.moment] * living, [0] * living
        ends = clock.moment + seconds
        while (first := min(free)) < ends:
            number = free.index(first)
            clock.moment = first
            free[number] = max(fleet.call(workers[number], 2.0, living), first + 0.001)
            made[number] += 1
        return made

    made = work(60.0, 4)
    assert sum(made) > 1000
    assert max(made) - min(made) <= 0.1 * max(made)
    made = work(60.0, 3)
    assert sum(made) > 1000
    assert max(made) - min(made) <= 0.1 * max(made)
    assert fleet.most_in_a_minute() <= 1200


@pytest.mark.parametrize("workers", [1, 4])
def test_a_worker_takes_a_share_for_each_beat_at_most(clock: Time, workers: int) -> None:
    """The store is written to as often as the workers beat, however many calls they make."""
    fleet = Fleet(6000, clock)
    each = [fleet.join() for _ in range(workers)]
    while clock.moment < 60.0:
        for rate in each:
            clock.moment = max(fleet.call(rate, 2.0, workers), clock.moment)
    assert len(fleet.calls) > 5000
    assert fleet.draws <= workers * (60.0 / 2.0 + 2)


@pytest.mark.parametrize(("per_minute", "workers"), [(20, 1), (200, 7)])
def test_a_rate_of_less_than_a_call_for_each_beat_is_taken_by_calls(clock: Time, per_minute: int, workers: int) -> None:
    """None is taken before it is needed: the next worker has it."""
    fleet = Fleet(per_minute, clock)
    rate = fleet.join()
    assert rate.share(2.0, workers) == 0
    for _ in range(5):
        fleet.call(rate, 2.0, workers)
    assert fleet.draws == 5
    assert rate.take() is None


def test_a_worker_that_was_stopped_uses_no_share_of_before(clock: Time) -> None:
    """Its time has gone by, and others have had theirs since."""
    fleet = Fleet(600, clock)
    rate = fleet.join()
    fleet.call(rate, 2.0, 1)
    assert rate.take() is not None
    begins = rate.ready()
    assert begins is not None
    clock.moment += 30.0
    assert rate.take() is None
    assert rate.is_late(begins)


def test_tokens_that_are_not_held_are_owed(clock: Time) -> None:
    """What a call used beyond the worker's share puts off the calls of all."""
    rate = Rate(6400, clock)
    rate.add(100, 0.0, clock.moment)
    assert rate.spend(40) == 0
    assert rate.spend(100) == pytest.approx(40 * rate.each)
    assert rate.ready() is None


def limited(service: SqlSessionService, limit: ModelLimit, heartbeat: float, moments: list[float]) -> Worker:
    """A worker whose model takes 100 tokens for each answer, and notes when it is asked."""
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=100)

    class Noting(ScriptedModel):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            moments.append(uptime())
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    said = [LlmResponse(content=response_of("Hi.").content, usage_metadata=usage)] * 50
    runner = Runner(app_name=APP, agent=LlmAgent(name="agent", model=Noting(said)), session_service=service)
    return Worker(runner, limits=[limit], heartbeat=heartbeat, dead_after=5)


@pytest.mark.parametrize("limit", [ModelLimit("*", per_minute=60_000), ModelLimit("*", tokens_per_minute=6_000_000)])
async def test_calls_write_nothing_while_the_share_lasts(where: str, limit: ModelLimit) -> None:
    """Of many calls, a few take a share; the others have no statement."""
    service, lanes, moments = opened(where), list[Any](), list[float]()
    worker = limited(service, limit, 1.0, moments)
    real = worker.registry.write

    async def counted(work: Any, lane: Any, **options: Any) -> Any:
        lanes.append(lane[0])
        return await real(work, lane, **options)

    worker.registry.write = counted
    async with worker, client_of(service) as client:
        began = uptime()
        runs = [await client.submit("Go.", user_id=f"u{number}", session_id="s") for number in range(40)]
        for run in runs:
            assert (await asyncio.wait_for(run.result(), 60)).status == "final"
        beats = uptime() - began
    assert len(moments) == 40
    assert 1 <= lanes.count("slot") <= 2 + beats
    await service.close()


async def test_shares_keep_to_the_limit_while_workers_come_and_go(where: str) -> None:
    """All calls of the fleet together, of workers that take shares: 30 in a second, and those of a beat at once at
    either end."""
    service, moments = opened(where), list[float]()
    limit = ModelLimit("*", per_minute=30 * 64)
    worker, other, late = (limited(service, limit, 0.2, moments) for _ in range(3))
    async with client_of(service) as client, worker, other:
        began = uptime()
        runs = [await client.submit("Go.", user_id=f"u{number}", session_id="s") for number in range(40)]
        await until(lambda: len(moments) > 10)
        async with late:
            await until(lambda: len(moments) > 20)
        for run in runs:
            assert (await asyncio.wait_for(run.result(), 60)).status == "final"
    assert len(moments) == 40
    assert max(moments) - began >= 39 / 30 - 2 * 0.2
    await service.close()


async def test_workers_hear_how_many_they_are(where: str) -> None:
    """With their beats: one that joins, and one that has gone."""
    service = opened(where)

    def worker() -> Worker:
        agent = LlmAgent(name="agent", model=ScriptedModel(["Hi."]))
        return Worker(Runner(app_name=APP, agent=agent, session_service=service), heartbeat=0.05, dead_after=0.5)

    async with worker() as first:
        async with worker() as second:
            await until(lambda: first.beats.workers == second.beats.workers == 2)
        await until(lambda: first.beats.workers == 1)
        await first.registry.register(worker().row("dead"))  # it is never heard of
        await until(lambda: first.beats.workers == 2)
        await until(lambda: first.beats.workers == 1)
    await service.close()
