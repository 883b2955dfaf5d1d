"""The rules of what is asked of runs from elsewhere, and of limits (durable design, sections 6, 8 and 12)."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from functools import partial

import pytest

from flowloom.errors import AlreadyAnsweredError, InputValidationError
from flowloom.testing.suites.courier_place import (
    Crew,
    Place,
    all_final,
    calls_at_once,
    ended,
    has_workers,
    legal,
    most_at_once,
    places_taken,
    quiet,
    story,
    submitted,
    until,
    until_async,
)
from flowloom.testing.suites.courier_rules import CourierRules
from flowloom.testing.suites.loop import in_loop


class AskingRules(CourierRules):
    """A run is stopped, paused and answered from any process, whoever dies meanwhile."""

    @in_loop
    async def test_a_run_is_cancelled_from_elsewhere(self, place: Place, crew: Crew) -> None:
        """At once where it runs, and with a legal history; one that no worker has does not begin."""
        async with self.client(place) as client:
            early = await submitted(client, 2, steps=1)
            assert await early.cancel() == "cancelled"
            pid = crew.start(place, pause=0.3)
            run = await submitted(client, 1, steps=50)
            await until(lambda: len(place.lines()) > 0)
            began_at = time.monotonic()
            assert await run.cancel() == "running"
            result = await ended(run)
            assert result.status == "cancelled"
            assert time.monotonic() - began_at < 12
            await legal(run)
            begun = (await early.info()).status != "cancelled" or place.has_begun(early)
            assert not begun, "A run that was cancelled before it began was brought to a worker."
            crew.kill(pid)

    @in_loop
    async def test_a_run_is_paused_and_resumed_from_elsewhere(self, place: Place, crew: Crew) -> None:
        """It holds no worker meanwhile, and goes on where it was."""
        async with self.client(place) as client:
            pid = crew.start(place, pause=0.3)
            run = await submitted(client, 1, steps=5)
            await until(lambda: len(place.lines()) > 1)
            await run.pause()
            result = await ended(run)
            assert result.status == "paused"
            info = await run.info()
            assert (info.status, info.worker) == ("paused", None)
            crew.kill(pid)
            other = crew.start(place)
            await run.resume()
            await all_final([run])
            assert await story(run) == quiet(5, run)
            assert place.check_keys([run]) == 0
            crew.kill(other)

    @in_loop
    async def test_a_person_answers_after_the_worker_is_gone(self, place: Place, crew: Crew) -> None:
        """From any process; the first answer counts, the same again is nothing, another one is refused."""
        async with self.client(place) as client, self.client(place) as other:
            pid = crew.start(place)
            runs = [await client.submit("pay 5", user_id=f"u{number}", session_id="s") for number in range(3)]
            for run in runs:
                assert (await ended(run)).status == "paused"
            crew.kill(pid)
            (asked,) = await runs[0].pending()
            same = await other.attach(runs[0].id)
            answers = [runs[0].answer(asked.approve()), same.answer(asked.approve())]
            assert await asyncio.gather(*answers) == [None, None]
            with pytest.raises(AlreadyAnsweredError):
                await same.answer(asked.reject("no"))
            (refused,) = await runs[1].pending()
            await runs[1].answer(refused.reject("no"))
            with pytest.raises(InputValidationError):
                await runs[2].answer("yes")
            last = crew.start(place)
            await all_final(runs[:2])
            assert [event.text async for event in runs[0].events()][-1] == "Done: pay 5"
            assert [event.text async for event in runs[1].events()][-1] == "Refused: pay 5"
            await runs[0].answer(asked.approve())
            with pytest.raises(AlreadyAnsweredError):
                await runs[0].answer(asked.reject("no"))
            paid = Counter(line[2] for line in place.lines() if line[0] == "begin")
            assert paid == {runs[0].id: 1}, "What was approved once was paid once, and what was refused not at all."
            assert await runs[2].cancel() == "cancelled"
            crew.kill(last)

    @in_loop
    async def test_what_is_asked_holds_though_the_worker_dies(self, place: Place, crew: Crew) -> None:
        """A cancel, a pause, an approval and a rejection, each twice at once while the worker is killed, are done once,
        by whoever comes next."""
        chance = random.Random(self.tries)
        async with self.client(place) as client, self.client(place) as other:
            for number in range(self.tries):
                pid = crew.start(place, pause=0.05, concurrency=8)
                names = [f"{what}{number}" for what in ("cancel", "pause", "approve", "reject")]
                said = ("steps 30", "steps 30", "pay 5", "pay 5")
                runs = [
                    await client.submit(text, user_id=name, session_id=name)
                    for name, text in zip(names, said, strict=True)
                ]
                cancelled, paused, approved, rejected = runs
                for run in (approved, rejected):
                    assert (await ended(run)).status == "paused"
                for run in (cancelled, paused):
                    await until(partial(place.has_begun, run))
                yes, no = [(await run.pending())[0] for run in (approved, rejected)]
                theirs = [await other.attach(run.id) for run in runs]

                async def die(pid: int = pid, moment: float = 0.1 * chance.random()) -> None:
                    await asyncio.sleep(moment)
                    crew.kill(pid)

                asked = [
                    each
                    for first, second, third, fourth in (runs, theirs)
                    for each in (
                        *(first.cancel(), second.pause()),
                        *(third.answer(yes.approve()), fourth.answer(no.reject("no"))),
                    )
                ]
                await asyncio.gather(die(), *asked)
                last = crew.start(place, concurrency=8)
                assert (await ended(cancelled)).status == "cancelled"
                await legal(cancelled)
                assert (await ended(paused)).status == "paused"
                await paused.resume()
                await all_final([paused, approved, rejected])
                assert await story(paused) == quiet(30, paused)
                ends = [[event.text async for event in run.events()][-1] for run in (approved, rejected)]
                assert ends == ["Done: pay 5", "Refused: pay 5"]
                paid = {
                    line[1] for line in place.lines() if line[0] == "begin" and line[2] in (approved.id, rejected.id)
                }
                assert [key.partition("/")[0] for key in paid] == [approved.id]
                crew.kill(last)

    @in_loop
    async def test_one_of_two_answers_at_once_counts(self, place: Place, crew: Crew) -> None:
        """The other one gets `AlreadyAnsweredError`, and the run goes on with the first."""
        async with self.client(place) as client, self.client(place) as other:
            pid = crew.start(place)
            runs = [await client.submit("pay 5", user_id=f"u{number}", session_id="s") for number in range(self.tries)]
            for run in runs:
                assert (await ended(run)).status == "paused"
                (asked,) = await run.pending()
                same = await other.attach(run.id)
                both = (run.answer(asked.approve()), same.answer(asked.reject("no")))
                told = await asyncio.gather(*both, return_exceptions=True)
                assert sorted(type(each).__name__ for each in told) == ["AlreadyAnsweredError", "NoneType"]
                await all_final([run])
                word = "Done" if told[0] is None else "Refused"
                assert [event.text async for event in run.events()][-1] == f"{word}: pay 5"
            crew.kill(pid)

    @in_loop
    async def test_a_limit_holds_for_the_fleet(self, place: Place, crew: Crew) -> None:
        """No more runs of a user at once than may be, though a worker dies; and all places come back."""
        async with self.client(place) as client:
            for number in range(self.tries):
                pids = [crew.start(place, most=2, pause=0.02, dead_after=10.0) for _ in range(2)]
                await until_async(lambda: has_workers(client, 2))
                before = len(place.lines())
                runs = [
                    await client.submit("steps 1", user_id=f"ann{number}", session_id=f"s{each}") for each in range(12)
                ]
                watched = asyncio.create_task(most_at_once(client))
                await until(lambda before=before: len(place.lines()) > before + 4)
                crew.kill(pids[0])
                await all_final(runs)
                watched.cancel()
                most = await watched
                assert most <= 2, f"{most} runs of a user were ready or running at once, where 2 may be."
                again = await client.submit("steps 1", user_id=f"ann{number}", session_id="again")
                await all_final([again])
                crew.kill(pids[1])
                assert await places_taken(client) == 0, "A place did not come back."

    @in_loop
    async def test_a_limit_of_model_calls_holds_for_the_fleet(self, place: Place, crew: Crew) -> None:
        """No more calls at once than may be, though a worker dies in the middle of some; and all places come back."""
        async with self.client(place) as client:
            for number in range(self.tries):
                # who lives is not to be buried on a busy machine; who was killed is known to be gone
                pids = [crew.start(place, model_calls=3, pause=0.03, dead_after=10.0) for _ in range(3)]
                await until_async(lambda: has_workers(client, 3))
                before = len(place.lines())
                runs = [
                    await client.submit("steps 1", user_id=f"u{number}-{each}", session_id="s") for each in range(12)
                ]
                await until(lambda before=before: len(place.lines()) > before + 8)
                place.note_death(pids[0])
                crew.kill(pids[0])
                await all_final(runs)
                most = calls_at_once(place.lines()[before:])
                assert 2 <= most <= 3, f"{most} model calls were under way at once, where 3 may be."
                assert await places_taken(client) == 0, "A place did not come back."
                for pid in pids[1:]:
                    crew.kill(pid)
