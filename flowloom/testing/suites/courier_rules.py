"""What the rules of couriers stand on: a store, clients and workers of it, and how often each thing is tried."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowloom.durable import Courier, RunClient, Worker
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing.suites.courier_crew import APP, crew_runner, opened
from flowloom.testing.suites.courier_place import Crew, Place, Unreliable
from flowloom.testing.suites.loop import Suite


class CourierRules(Suite):
    """Makes clients, workers and processes of workers, with the courier that `make_courier` makes."""

    kills = 4
    """How many workers are killed while runs go on."""
    pace = 0.3
    """Seconds from one kill to the next at the most; more for workers that begin slowly."""
    runs = 12
    """How many runs there are beside these kills, and in most other tests."""
    zombies = 1
    """How many workers are stopped and woken."""
    asleep = 0.0
    """For how many seconds they are stopped at the least."""
    behind = 2.0
    """How many seconds behind a follower may be in the median; on a machine that does nothing else, 0.5 is enough."""
    tries = 1
    """How often what is asked while a worker dies is tried."""
    sessions = 3
    """How many sessions have runs one after the other."""
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
    async def client(self, place: Place, *, unreliable: bool = False, **options: Any) -> AsyncGenerator[RunClient]:
        """A client of the store of a `place`, with these `options`; an `unreliable` courier loses, doubles and delays
        what it is given."""
        service = opened(place.store)
        try:
            courier = self.make_courier(place.store, service, APP)
            used = Unreliable(courier) if unreliable else courier
            async with RunClient(APP, service, courier=used, **options) as client:
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
