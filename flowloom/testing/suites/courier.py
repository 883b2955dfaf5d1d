"""`CourierSuite`: what a fleet promises, whichever courier brings its runs (durable design, sections 6 and 12)."""

from __future__ import annotations

from flowloom.testing.suites.courier_asking import AskingRules
from flowloom.testing.suites.courier_crew import APP
from flowloom.testing.suites.courier_dying import DyingRules
from flowloom.testing.suites.courier_place import (
    Crew,
    Place,
    all_final,
    has_workers,
    killing,
    quiet,
    story,
    submitted,
    until_async,
)
from flowloom.testing.suites.loop import in_loop


class CourierSuite(DyingRules, AskingRules):
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
    in processes that import the class by its name. How often each thing is tried is said by attributes of the class:
    `kills`, `pace`, `runs`, `zombies`, `asleep`, `behind`, `tries` and `sessions` (see `CourierRules`).
    """

    @in_loop
    async def test_every_run_reaches_a_worker_once(self, place: Place, crew: Crew) -> None:
        """Runs of many sessions end, each with the log that it has in process, and no tool is begun twice."""
        async with self.worker(place, dead_after=10.0), self.client(place) as client:
            crew.start(place, dead_after=10.0)  # who lives is not to be buried on a busy machine
            await until_async(lambda: has_workers(client, 2))
            runs = [await submitted(client, number, steps=2) for number in range(self.runs)]
            await all_final(runs)
            for run in runs:
                assert await story(run) == quiet(2, run)
            assert place.check_keys(runs) == 0

    @in_loop
    async def test_what_is_lost_doubled_or_late_changes_nothing(self, place: Place) -> None:
        """A message that is lost is sent again, one that comes twice finds no ready run."""
        async with self.worker(place, unreliable=True), self.client(place, unreliable=True) as client:
            runs = [await submitted(client, number % 5, steps=1) for number in range(self.runs)]
            await all_final(runs)
            for run in runs:
                assert await story(run) == quiet(1, run)
            assert place.check_keys(runs) == 0

    @in_loop
    async def test_runs_of_a_session_come_in_the_order_of_submission(self, place: Place, crew: Crew) -> None:
        """And none begins before the one before it is over, whoever dies between."""
        async with self.client(place) as client, killing(crew, place, 3, self.pace):
            count = self.sessions * min(self.runs // self.sessions, 10)
            runs = [await submitted(client, number % self.sessions, steps=1) for number in range(count)]
            await all_final(runs)
            for number in range(self.sessions):
                session = await client.session_service.get_session(
                    app_name=APP, user_id=f"user{number}", session_id=f"s{number}"
                )
                assert session is not None
                order = [event.invocation_id for event in session.events]
                wanted = [run.id for run in runs[number :: self.sessions]]
                assert list(dict.fromkeys(order)) == wanted, "The runs of a session were not in order."
                assert order == [run_id for run_id in wanted for _ in range(4)], "Two runs of a session were mixed."
