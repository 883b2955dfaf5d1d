"""A worker's beats: one for all of its runs, in the place of a lease for each (durable design, section 5)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, cast

from flowloom.durable.channel import forget
from flowloom.durable.leg import Leg
from flowloom.durable.records import Wish, WorkerRow
from flowloom.durable.registry import Registry
from flowloom.errors import StorageError
from flowloom.sessions.leases import uptime

_log = logging.getLogger("flowloom.durable")


class Beating(Protocol):
    """What beats need of their worker."""

    registry: Registry

    @property
    def legs(self) -> Mapping[str, Leg]: ...
    def row(self, name: str) -> WorkerRow: ...
    def new_name(self) -> str: ...
    def lost(self) -> None: ...
    def took_over(self, worker: str, run_ids: Sequence[str]) -> None: ...


class Beats:
    """Tells the registry of a worker that it lives, hears what is asked of its runs, and buries the dead.

    It buries whom it has not heard of only after its own beats have succeeded for `dead_after` seconds without a gap:
    who was away, or had no database, is no judge of others. A process that is known to have ended is buried at once.
    """

    def __init__(self, worker: Beating, heartbeat: float, dead_after: float) -> None:
        self._worker = worker
        self.heartbeat = heartbeat
        self.dead_after = dead_after
        self.draining = False
        self.name = worker.new_name()
        self.workers = 1
        """How many workers there are, as the last beat has heard."""
        self.renewed = uptime()
        """When the registry was last known to count on the worker for `dead_after` more, by `uptime`."""
        self._unbroken = uptime()
        """Since when the beats have succeeded without a gap."""
        self.also: list[Callable[[], Awaitable[None]]] = []
        """What is done after each beat that has reached the registry."""
        self._forgotten: set[str] = set()
        self._soon = asyncio.Event()
        self._beating: asyncio.Lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Put the worker into the registry, and beat from now on."""
        await self._register()
        self._unbroken = self.renewed
        self._task = asyncio.create_task(self._beat_on(), name="flowloom worker's beats")

    async def _register(self) -> None:
        began = uptime()
        await self._worker.registry.register(self._worker.row(self.name))
        self.renewed = began

    async def stop(self) -> None:
        """Beat no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def at_once(self) -> None:
        """Have the next beat now: something is asked of a run."""
        self._soon.set()

    async def _beat_on(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.heartbeat):  # `wait_for` of Python 3.11 may lose a cancel
                    await self._soon.wait()
            self._soon.clear()
            try:
                await self.beat()
            except StorageError as error:
                self._unbroken = uptime()
                _log.warning("Worker `%s` cannot reach its registry, and tries again: %s", self.name, error)
            except Exception:  # a worker that beat no more would be taken for dead
                self._unbroken = uptime()
                _log.exception("A beat of worker `%s` has failed; it beats again.", self.name)

    async def beat(self) -> None:
        """Beat now. Raises `StorageError`; the worker's runs are lost, and it has another name, if it was buried."""
        async with self._beating:
            began, worker = uptime(), self._worker
            if began - self.renewed > self.dead_after:
                self._unbroken = began
            reaps = began - self._unbroken >= self.dead_after
            before = frozenset(worker.legs)
            heard = await worker.registry.beat(worker.row(self.name), reaps=reaps)
            if heard is None:
                await self._rise_again()
                return
            self.renewed, self.workers = began, heard.workers
            for leg in worker.legs.values():
                leg.fence.renewed = began
        for run_id, wish in heard.wishes.items():
            leg = worker.legs.get(run_id)
            if leg is not None:
                leg.wish(cast(Wish, wish))
        for each in self.also:
            await each()
        await self._give_back_forgotten({*heard.runs} - before - {*worker.legs})
        for name, moment, address in heard.dead:
            taken = await worker.registry.bury(name, moment)
            if taken is not None:
                forget(address)
                worker.took_over(name, taken)

    async def _rise_again(self) -> None:
        """The worker was buried while it slept: drop its runs, and begin anew under another name."""
        old = self.name
        self._worker.lost()
        self.name = self._worker.new_name()
        self._forgotten.clear()
        await self._register()
        self._unbroken = self.renewed
        _log.warning(
            "Worker `%s` was not heard of for %g seconds, and others have its runs. It goes on as `%s`.",
            *(old, self.dead_after, self.name),
        )

    async def _give_back_forgotten(self, run_ids: set[str]) -> None:
        """Runs that the registry says this worker has, twice, and that it has not: their claim was answered to no
        caller."""
        twice, self._forgotten = run_ids & self._forgotten, run_ids
        for run_id in twice:
            row = await self._worker.registry.find(run_id)
            if row is not None and row.worker == self.name and run_id not in self._worker.legs:
                await self._worker.registry.hand_back(row)
