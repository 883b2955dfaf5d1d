"""`CourierSuite`: what a fleet promises, whichever courier brings its runs (durable design, sections 6 and 12)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowloom.durable import Courier, RunClient, Worker
from flowloom.errors import AlreadyAnsweredError, InputValidationError
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing.suites.courier_crew import APP, crew_runner, opened
from flowloom.testing.suites.courier_place import (
    SECONDS,
    Crew,
    Place,
    Unreliable,
    all_final,
    began,
    followed,
    has_workers,
    killing,
    legal,
    most_at_once,
    quiet,
    story,
    submitted,
    until,
    until_async,
)
from flowloom.testing.suites.loop import Suite, in_loop


class CourierSuite(Suite):
    """The rules of fleets, for couriers. Subclass it at the top of a test module, and make yours:

    ```python
    import pytest
    from flowloom.testing.suites import CourierSuite


    class TestMyCourier(CourierSuite):
        @pytest.fixture
        def store(self, tmp_path):
            return str(tmp_path / "runs.db")

        def make_courier(self, store, service, app_name):
            return MyCourier(service, app_name)
    ```

    `store` is the path of a SQLite file or a PostgreSQL URL, an empty one for each test. Workers are killed for real,
    in processes that import the class by its name. `kills` and `runs` say how many there are in each test.
    """

    kills = 4
    runs = 12
    _crew: Crew | None = None

    def make_courier(self, store: str, service: SqlSessionService, app_name: str) -> Courier:
        """A courier for the runs of the app `app_name`, in the `store` that `service` has open."""
        raise NotImplementedError("A `CourierSuite` needs `make_courier`.")

    @pytest.fixture
    def crew(self) -> Iterator[Crew]:
        """The processes of workers, which are killed when the test is over."""
        kind = type(self)
        if kind._crew is None:
            kind._crew = Crew(kind)
        yield kind._crew
        kind._crew.end()

    @classmethod
    def teardown_class(cls) -> None:
        """End the process that the workers come from."""
        if cls._crew is not None:
            cls._crew.close()
            cls._crew = None

    @pytest.fixture
    def place(self, store: str, tmp_path: Path) -> Place:
        """The `store`, with a diary in `tmp_path`."""
        return Place(store, tmp_path)

    @asynccontextmanager
    async def client(self, place: Place, **options: Any) -> AsyncGenerator[RunClient]:
        """A client of the store of a `place`, with these `options`."""
        service = opened(place.store)
        try:
            courier = self.make_courier(place.store, service, APP)
            async with RunClient(APP, service, courier=courier, **options) as client:
                yield client
        finally:
            await service.close()

    @asynccontextmanager
    async def worker(self, place: Place, *, unreliable: bool = False, **options: Any) -> AsyncGenerator[Worker]:
        """A worker of the store of a `place` in this process, with these `options`; an `unreliable` courier loses,
        doubles and delays what it is given."""
        service = opened(place.store)
        try:
            courier = self.make_courier(place.store, service, APP)
            quick: dict[str, Any] = {"heartbeat": 0.1, "dead_after": 0.5, "sweep": 0.2, "drain": 5.0, **options}
            runner = crew_runner(service, place.diary, quick.pop("pause", 0.001))
            async with Worker(runner, courier=Unreliable(courier) if unreliable else courier, **quick) as worker:
                yield worker
        finally:
            await service.close()

    # -- bringing ------------------------------------------------------------------------------------------

    @in_loop
    async def test_every_run_reaches_a_worker_once(self, place: Place, crew: Crew) -> None:
        """Runs of many sessions end, each with the log that it has in process, and no tool is begun twice."""
        async with self.worker(place), self.client(place) as client:
            crew.start(place)
            await until_async(lambda: has_workers(client, 2))
            runs = [await submitted(client, number, steps=2) for number in range(self.runs)]
            await all_final(runs)
            for run in runs:
                assert await story(run) == quiet(2, run)
            assert place.check_keys(runs) == 0

    @in_loop
    async def test_what_is_lost_doubled_or_late_changes_nothing(self, place: Place) -> None:
        """A message that is lost is sent again, one that comes twice finds no ready run."""
        async with self.worker(place, unreliable=True), self.client(place) as client:
            runs = [await submitted(client, number % 5, steps=1) for number in range(self.runs)]
            await all_final(runs)
            for run in runs:
                assert await story(run) == quiet(1, run)
            assert place.check_keys(runs) == 0

    @in_loop
    async def test_runs_of_a_session_come_in_the_order_of_submission(self, place: Place, crew: Crew) -> None:
        """And none begins before the one before it is over, whoever dies between."""
        async with self.client(place) as client, killing(crew, place, 3):
            runs = [await submitted(client, number % 3, steps=1) for number in range(self.runs)]
            await all_final(runs)
            for number in range(3):
                session = await client.session_service.get_session(
                    app_name=APP, user_id=f"user{number}", session_id=f"s{number}"
                )
                assert session is not None
                order = [event.invocation_id for event in session.events]
                wanted = [run.id for run in runs[number::3]]
                assert list(dict.fromkeys(order)) == wanted, "The runs of a session were not in order."
                assert order == [run_id for run_id in wanted for _ in range(4)], "Two runs of a session were mixed."

    # -- dying ---------------------------------------------------------------------------------------------

    @in_loop
    async def test_runs_outlive_workers_that_are_killed(self, place: Place, crew: Crew) -> None:
        """Each run ends with the log of a quiet run; no more tools are done again than were under way, each under the
        key that it had; and who follows from elsewhere sees each event once, in order."""
        async with self.client(place) as client, killing(crew, place, self.kills) as killed:
            runs = [await submitted(client, number, steps=3) for number in range(self.runs)]
            followers = [asyncio.create_task(followed(run)) for run in runs[: min(self.runs // 2, 50)]]
            await all_final(runs)
            for run in runs:
                assert await story(run) == quiet(3, run)
            for run, follower in zip(runs, followers, strict=False):
                assert [event.id for event in await follower] == [event.id async for event in run.events()]
            again = place.check_keys(runs)
            assert again <= 4 * len(killed), f"{again} tools were done again for {len(killed)} kills of 4 runs each."

    @in_loop
    async def test_a_worker_that_was_stopped_and_woken_changes_nothing(self, place: Place, crew: Crew) -> None:
        """Others have its runs then: it appends nothing to their logs, and begins no tool of theirs."""
        async with self.client(place) as client:
            zombie = crew.start(place, pause=0.2)
            runs = [await submitted(client, number, steps=3) for number in range(3)]
            await until(lambda: sum(line[0] == "begin" for line in place.lines()) > 5)
            await asyncio.sleep(0.1)  # who is stopped while it writes to a SQLite file locks it for all
            crew.kill(zombie, signal.SIGSTOP)
            other = crew.start(place, pause=0.005)
            await all_final(runs)
            before = len(place.lines())
            crew.kill(zombie, signal.SIGCONT)
            late = await submitted(client, 9, steps=1)
            await all_final([late])
            await asyncio.sleep(0.2)
            woken = [line for line in place.lines()[before:] if line[2] != late.id]
            assert [line for line in woken if line[0] == "begin"] == [], "A woken worker has begun a tool."
            for run in runs:
                assert await story(run) == quiet(3, run)
            for pid in (zombie, other):
                crew.kill(pid)

    @in_loop
    async def test_a_worker_that_is_told_to_end_hands_its_runs_over(self, place: Place, crew: Crew) -> None:
        """After the step that is under way: nothing is done again."""
        async with self.client(place) as client:
            first = crew.start(place, pause=0.05, drain=0.0)
            run = await submitted(client, 1, steps=8)
            await until(lambda: len(place.lines()) > 2)
            second = crew.start(place, pause=0.01)
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
            result = await asyncio.wait_for(run.result(), SECONDS)
            assert (result.status, type(result.error).__name__) == ("failed", "PoisonRunError")
            await run.retry()
            await all_final([run])
            crew.kill(last)

    # -- asking --------------------------------------------------------------------------------------------

    @in_loop
    async def test_a_run_is_cancelled_from_elsewhere(self, place: Place, crew: Crew) -> None:
        """At once where it runs, and with a legal history."""
        async with self.client(place) as client:
            pid = crew.start(place, pause=0.3)
            run = await submitted(client, 1, steps=50)
            await until(lambda: len(place.lines()) > 0)
            began_at = time.monotonic()
            assert await run.cancel() == "running"
            result = await asyncio.wait_for(run.result(), SECONDS)
            assert result.status == "cancelled"
            assert time.monotonic() - began_at < 5
            await legal(run)
            crew.kill(pid)

    @in_loop
    async def test_a_run_is_paused_and_resumed_from_elsewhere(self, place: Place, crew: Crew) -> None:
        """It holds no worker meanwhile, and goes on where it was."""
        async with self.client(place) as client:
            pid = crew.start(place, pause=0.05)
            run = await submitted(client, 1, steps=5)
            await until(lambda: len(place.lines()) > 1)
            await run.pause()
            result = await asyncio.wait_for(run.result(), SECONDS)
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
                assert (await asyncio.wait_for(run.result(), SECONDS)).status == "paused"
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
    async def test_a_limit_holds_for_the_fleet(self, place: Place, crew: Crew) -> None:
        """No more runs of a user at once than may be, though a worker dies; and all places come back."""
        async with self.client(place) as client:
            pids = [crew.start(place, most=2, pause=0.02) for _ in range(2)]
            await until_async(lambda: has_workers(client, 2))
            runs = [
                await client.submit("steps 1", user_id="ann", session_id=f"s{number}") for number in range(self.runs)
            ]
            watched = asyncio.create_task(most_at_once(client))
            await until(lambda: len(place.lines()) > 4)
            crew.kill(pids[0])
            await all_final(runs)
            watched.cancel()
            assert await watched <= 2
            again = await client.submit("steps 1", user_id="ann", session_id="again")
            await all_final([again])
            crew.kill(pids[1])
