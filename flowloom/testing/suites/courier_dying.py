"""The rules of workers that die, sleep, and end (durable design, sections 6 and 12)."""

from __future__ import annotations

import asyncio
import logging
import signal
import statistics
import time

from flowloom.durable import SubmittedRun
from flowloom.testing.suites.courier_place import (
    Crew,
    Following,
    Place,
    all_final,
    began,
    ended,
    has_workers,
    killing,
    quiet,
    stopped,
    story,
    submitted,
    until,
    until_async,
)
from flowloom.testing.suites.courier_rules import CourierRules
from flowloom.testing.suites.loop import in_loop

_log = logging.getLogger("flowloom.testing")


class DyingRules(CourierRules):
    """Runs outlive their workers."""

    @in_loop
    async def test_runs_outlive_workers_that_are_killed(self, place: Place, crew: Crew) -> None:
        """Each run ends with the log of a quiet run; no more tools are done again than were under way, each under the
        key that it had; and who follows from elsewhere sees each event once, in order."""
        async with self.client(place) as client, killing(crew, place, self.kills, self.pace) as killed:
            runs, followers = list[SubmittedRun](), list[asyncio.Task[list[float]]]()
            while len(runs) < self.runs:
                numbers = range(len(runs), min(len(runs) + 10, self.runs))
                runs += await asyncio.gather(*(submitted(client, number, steps=3) for number in numbers))
                for number in numbers:
                    if number < min(self.runs // 2, 50):
                        followers.append(asyncio.create_task(Following(runs[number], number).lags()))
            await all_final(runs)
            for run in runs:
                assert await story(run) == quiet(3, run)
                await place.check_calls(run)
            lags = [lag for follower in followers for lag in await follower]
            again = place.check_keys(runs)
            taken = sum([(await run.info()).takeovers > 0 for run in runs])
            assert again <= 4 * len(killed), f"{again} tools were done again for {len(killed)} kills of 4 runs each."
            said = (len(killed), len(runs), taken, again, len(followers), statistics.median(lags), max(lags))
            _log.info(
                "%d kills, %d runs, %d taken over, %d tools again, %d followed, %.3f s behind, at most %.3f", *said
            )
            assert statistics.median(lags) <= self.behind, f"Followers were {statistics.median(lags):.2f} s behind."

    @in_loop
    async def test_a_worker_that_was_stopped_and_woken_changes_nothing(self, place: Place, crew: Crew) -> None:
        """Others have its runs then: it appends nothing to their logs, and begins no tool of theirs."""
        async with self.client(place) as client:
            zombies = [crew.start(place, pause=0.2) for _ in range(self.zombies)]
            await until_async(lambda: has_workers(client, len(zombies)))
            runs = [await submitted(client, number, steps=3) for number in range(3 * len(zombies))]
            await until(lambda: sum(line[0] == "begin" for line in place.lines()) > 5 * len(zombies))
            for zombie in zombies:
                await stopped(crew, place, zombie)
            stopped_at = time.monotonic()
            other = crew.start(place, pause=0.005, concurrency=16)
            await all_final(runs)
            await asyncio.sleep(max(stopped_at + self.asleep - time.monotonic(), 0.0))
            before = len(place.lines())
            for zombie in zombies:
                crew.kill(zombie, signal.SIGCONT)
            late = await submitted(client, 10_000, steps=1)
            await all_final([late])
            await asyncio.sleep(0.2)
            woken = [line for line in place.lines()[before:] if line[2] != late.id]
            assert [line for line in woken if line[0] == "begin"] == [], "A woken worker has begun a tool."
            for run in runs:
                assert await story(run) == quiet(3, run)
            taken = sum([(await run.info()).takeovers > 0 for run in runs])
            assert taken, "No run was taken from a worker that was stopped."
            said = (len(zombies), time.monotonic() - stopped_at, len(runs), taken, place.check_keys([*runs, late]))
            _log.info("%d workers stopped for %.1f s, %d runs, %d taken over, %d tools again", *said)
            for pid in (*zombies, other):
                crew.kill(pid)

    @in_loop
    async def test_a_worker_that_is_told_to_end_hands_its_runs_over(self, place: Place, crew: Crew) -> None:
        """After the step that is under way: nothing is done again."""
        async with self.client(place) as client:
            # the second one is up before it is done, and buries none that lives on a busy machine
            first = crew.start(place, pause=0.2, drain=0.0, dead_after=10.0)
            run = await submitted(client, 1, steps=8)
            await until(lambda: len(place.lines()) > 2)
            second = crew.start(place, pause=0.01, dead_after=10.0)
            crew.kill(first, signal.SIGTERM)
            await all_final([run])
            assert await story(run) == quiet(8, run)
            assert place.check_keys([run]) == 0
            assert len({line[3] for line in place.lines()}) == 2, "The run was not handed over."
            crew.pids.remove(first)
            crew.kill(second)

    @in_loop
    async def test_a_run_that_kills_its_workers_is_given_up(self, place: Place, crew: Crew) -> None:
        """After as many as may die of it; it says so, and can be tried again."""
        async with self.client(place) as client:
            run = await submitted(client, 1, steps=3)
            for _ in range(2):
                pid = crew.start(place, pause=5.0, max_takeovers=1)
                await began(run, pid)
                crew.kill(pid)
            last = crew.start(place, max_takeovers=1)
            result = await ended(run)
            assert (result.status, type(result.error).__name__) == ("failed", "PoisonRunError")
            await run.retry()
            await all_final([run])
            crew.kill(last)
