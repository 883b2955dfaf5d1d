"""`Worker`: takes runs of the fleet and runs them (durable design, sections 4 to 6)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from copy import copy
from functools import partial
from itertools import combinations
from typing import Any, Self

from flowloom import __version__
from flowloom.durable import metrics
from flowloom.durable.beats import Beats
from flowloom.durable.channel import Channel
from flowloom.durable.courier import Courier, not_offered
from flowloom.durable.deltas import Deltas
from flowloom.durable.leg import Leg, failure
from flowloom.durable.limits import Limit, ModelLimit, concurrency_limits
from flowloom.durable.model_limits import LimitedEffects
from flowloom.durable.records import MOST_LABELS, Row, WorkerRow, are_labels
from flowloom.durable.registry import Registry
from flowloom.durable.specs import Audience
from flowloom.durable.sql_runs import PINNED, Claimed, Ended
from flowloom.durable.store_courier import BLOCKED, StoreCourier
from flowloom.errors import ConfigurationError, RunLostError, StorageError
from flowloom.events.ids import new_id
from flowloom.interop.run_ends import RunEnds
from flowloom.plugins import PluginManager
from flowloom.runner import Runner
from flowloom.sessions.leases import Fence
from flowloom.sessions.sql_holders import this_process

_log = logging.getLogger("flowloom.durable")
DAY = 24 * 3600.0
_FORGETTING = 60.0
"""Seconds between two times that runs are forgotten which are long over."""


class Worker:
    """Takes runs from the fleet's queue, up to `concurrency` at a time, and runs them with `runner`.

    Its store of sessions has to be in SQLite or PostgreSQL. `run` works until the process is told to end; `async with`
    embeds a worker in a program. `courier` brings the runs, a `StoreCourier` without one. `labels` are what this worker
    can do: it takes runs that ask for none but these. `limits` hold for the fleet, so all workers of an app are given
    the same.

    It is heard of every `heartbeat` seconds; one that is not for `dead_after` seconds is dead, and others go on with
    its runs. When it ends, it waits `drain` seconds for the runs that it has; what is left is handed over after the
    step that is under way. Runs that stay ready for `sweep` seconds are offered again. A run that `max_takeovers`
    workers have died of is given to no further one. `keep_runs`: for how many seconds the registry remembers runs that
    are over. `version` is that of your program, which `flowloom workers` shows; by default that of flowloom. `deltas`
    say where clients of other machines get the deltas of its runs; those of its own machine do without.

    How a run goes on is said by its log, and not by the code, so that a worker goes on with what one of another version
    has begun. With `pin_version`, runs that this worker begins go on at workers of its `version` alone.

    Raises `ConfigurationError` for a `dead_after` of fewer than three beats, for numbers out of range, for a store in
    memory, for a certificate of `deltas` that cannot be used.
    """

    def __init__(
        self,
        runner: Runner[Any],
        *,
        courier: Courier | None = None,
        concurrency: int = 32,
        labels: Sequence[str] = (),
        limits: Sequence[Limit] = (),
        heartbeat: float = 2.0,
        dead_after: float = 10.0,
        drain: float = 30.0,
        sweep: float = 5.0,
        max_takeovers: int = 5,
        keep_runs: float = 7 * DAY,
        version: str = __version__,
        pin_version: bool = False,
        deltas: Deltas | None = None,
    ) -> None:
        if not 0 < heartbeat < math.inf:
            raise ConfigurationError(f"A worker's `heartbeat` is above 0 seconds, not {heartbeat:g}.")
        if not dead_after >= 3 * heartbeat * (1 - 1e-9):  # three times 0.1 is more than 0.3
            raise ConfigurationError(
                f"`dead_after` is at least three beats, so that one that is late does not count as the last: with a "
                f"`heartbeat` of {heartbeat:g} seconds, give {3 * heartbeat:g} or more, not {dead_after:g}."
            )
        numbers_fit = concurrency >= 1 and drain >= 0 and sweep > 0 and max_takeovers >= 0 and keep_runs >= 0
        if not numbers_fit or not are_labels(labels):
            raise ConfigurationError(
                f"A worker has a `concurrency` of at least 1, a `drain` and a `keep_runs` of no less than 0 seconds, a "
                f"`sweep` above 0, `max_takeovers` of at least 0, and at most {MOST_LABELS} `labels`, each a word "
                "without a comma."
            )
        if not are_labels((version,)):
            raise ConfigurationError("The `version` of a worker is a word without a comma, as its labels are.")
        model_limits = [limit for limit in limits if isinstance(limit, ModelLimit)]
        self.registry = Registry(runner.session_service, concurrency_limits(limits))
        self.max_takeovers = max_takeovers
        self.concurrency = concurrency
        self.labels = tuple(sorted(set(labels)))
        self.courier: Courier = courier or StoreCourier(runner.session_service, runner.app_name)
        self.channel = Channel(self._ring, self._look, deltas)
        self._version, self._pin = version, f"{PINNED}{version}" if pin_version else None
        known = self.labels if self._pin is None else tuple(sorted((*self.labels, self._pin)))
        self._takes = [",".join(some) for count in range(len(known) + 1) for some in combinations(known, count)]
        self._drain, self._sweep, self._keep_runs = drain, sweep, keep_runs
        self._legs: dict[str, Leg] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._own: list[asyncio.Task[None]] = []
        self._room = asyncio.Event()
        self._room.set()
        self._changed = asyncio.Event()
        """Whether a run is to be admitted whose time has come."""
        self._taken_over: list[str] = []
        """The runs of dead workers, to be offered."""
        self._claiming = asyncio.Lock()
        self._ending = asyncio.Event()
        self._gives_up = False
        self._closing = AsyncExitStack()
        """What closes all that was opened at the start."""
        self.beats = Beats(self, heartbeat, dead_after)
        self._counts = metrics.counted(runner.app_name)
        self.runner = runner
        if model_limits:
            self.runner = copy(runner)
            self.runner.effects = LimitedEffects(runner.effects, self.registry, model_limits, self.beats)
        self._for_servers: dict[bool, Runner[Any]] = {}

    # -- from outside ------------------------------------------------------------------------------------

    async def run(
        self, serving: Callable[[], object] | None = None, draining: Callable[[], object] | None = None
    ) -> None:
        """Work until the process is told to end (SIGTERM, SIGINT), or the task is cancelled; then drain. `serving` is
        called once, when the worker takes runs, `draining` when it is told to end.

        Raises `StorageError` if the store cannot be used at the start.
        """
        loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
        heard: list[signal.Signals] = []
        if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
            for number in numbers:
                loop.add_signal_handler(number, self.stop)
                heard.append(number)
        try:
            async with self:
                if serving is not None:
                    serving()
                await self._ending.wait()
                if draining is not None:
                    draining()
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Have `run` return, once the runs that the worker has are over or handed on."""
        self._ending.set()

    @property
    def name(self) -> str:
        """What the registry knows the worker by."""
        return self.beats.name

    @property
    def running(self) -> int:
        """How many runs it has."""
        return len(self._legs)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:  # what was opened is closed if the worker cannot start
            await self.registry.prepare()
            opened.push_async_callback(self.courier.close)
            await self.courier.check()
            opened.push_async_callback(self.channel.close)
            await self.channel.open()
            opened.push_async_callback(self._leave)
            await self.beats.start()
            self._closing = opened.pop_all()
        self._own = [
            asyncio.create_task(self._serve(), name="flowloom worker"),
            asyncio.create_task(self._keep_house(), name="flowloom worker's house"),
            asyncio.create_task(self._hear(), name="flowloom worker's ear"),
        ]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            await self._drained()
        finally:
            await self._close()

    async def _drained(self) -> None:
        """Take no more runs; wait for those that are under way, and have those that last handed over."""
        self.beats.draining = True
        serving = self._own[0]
        serving.cancel()
        await asyncio.wait({serving})
        self.beats.at_once()
        if self._tasks and self._drain:
            await asyncio.wait(self._tasks, timeout=self._drain)
        for leg in list(self._legs.values()):
            leg.hand_over()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(self._drain, 1.0))

    async def _close(self) -> None:
        """End what is left: what a run does then is another worker's."""
        self._gives_up = True
        for leg in list(self._legs.values()):
            leg.drop()
        for task in self._own:
            task.cancel()
        async with self._closing:  # all of it, if the wait is cancelled, too
            await asyncio.wait({*self._own, *self._tasks})

    async def _leave(self) -> None:
        """Have the registry know that the worker has ended."""
        await self.beats.stop()
        self._counts.latest = {}
        with contextlib.suppress(StorageError):  # others bury it
            ready = await self.registry.leave(self.name)
            await self._offer(ready)

    # -- what legs and beats need --------------------------------------------------------------------------

    @property
    def gives_up(self) -> bool:
        """Whether the worker has no time left to wait for the registry."""
        return self._gives_up

    def row(self, name: str) -> WorkerRow:
        """What the registry is told of the worker, by its `name`."""
        return WorkerRow(
            worker=name,
            app_name=self.runner.app_name,
            beat=0.0,
            patience=self.beats.dead_after,
            holder=this_process(),
            started=0.0,
            version=self._version,
            labels=",".join(self.labels),
            capacity=self.concurrency,
            running=len(self._legs),
            draining=int(self.beats.draining),
            address=self.channel.address,
            token=self.channel.token,
        )

    def new_name(self) -> str:
        """A name that no worker had."""
        return f"{socket.gethostname()}-{os.getpid()}-{new_id()[:8]}"

    def runner_for(self, audience: Audience | None) -> Runner[Any]:
        """The runner; for an `audience`, which a server serves, one that tells of a run's end as a server does."""
        if audience is None:
            return self.runner
        made = self._for_servers.get(audience.dev)
        if made is None:
            made = self._for_servers[audience.dev] = copy(self.runner)
            ends = RunEnds(dev=audience.dev, log=_log, place="worker")
            made.plugin_manager = PluginManager([*self.runner.plugin_manager.plugins, ends])
        return made

    def fence_of(self, claimed: Claimed) -> Fence:
        """The fence of a run that was claimed: it holds for as long as the beats come."""
        row = claimed.row
        fence = Fence(row.session_id, self.name, self.beats.dead_after, self.beats.renewed)
        fence.held, fence.abandoned = claimed.held, False
        fence.confirm = partial(self._confirm, fence, row)
        return fence

    async def _confirm(self, fence: Fence, row: Row) -> None:
        """Ask the registry whether a run is still this worker's, as soon as it can be reached."""
        while not fence.lost:
            try:
                await self.beats.beat()
                if not fence.lost and await self.registry.epoch_of(row.key) == fence.held:
                    return
                fence.lose()
            except StorageError:
                await asyncio.sleep(self.beats.heartbeat / 4)
        raise fence.error()

    @property
    def legs(self) -> dict[str, Leg]:
        """The runs that it has, by their ids."""
        return self._legs

    def lost(self) -> None:
        """The worker was buried: its runs are others' now."""
        for leg in list(self._legs.values()):
            leg.drop()
        self._legs.clear()

    def took_over(self, worker: str, run_ids: Sequence[str]) -> None:
        """The runs of `worker`, which was buried, are ready: those of `run_ids`."""
        metrics.taken_over(self.runner.app_name, len(run_ids))
        _log.warning(
            "Worker `%s` takes over for `%s`, which is dead: %d runs are ready again.", self.name, worker, len(run_ids)
        )
        self._taken_over += run_ids  # the house offers them: a courier that takes its time delays no beat
        self._changed.set()

    # -- taking runs ---------------------------------------------------------------------------------------

    def _ring(self) -> None:
        ring = getattr(self.courier, "ring", None)
        if ring is not None:
            ring()
        self._changed.set()

    def _look(self) -> None:
        self.beats.at_once()

    async def _hear(self) -> None:
        """Hear what is said to the worker from other machines, where the database tells it: on PostgreSQL."""
        while True:
            try:
                async with aclosing(self.registry.told(self.runner.app_name)) as said:
                    async for each in said:
                        what, *names = each.split() or ("", self.name)
                        if self.name in names and what != "look":
                            self._ring()
                        if self.name in names and what != "ring":
                            self._look()
                return
            except StorageError as error:
                _log.debug("Worker `%s` hears nothing from other machines: %s", self.name, error)
            except Exception:
                _log.exception("Worker `%s` hears nothing from other machines, and listens again.", self.name)
            await asyncio.sleep(self.beats.heartbeat)

    async def _offer(self, run_ids: Sequence[str]) -> None:
        if run_ids:
            try:
                await self.courier.offer(run_ids)
            except Exception as error:
                not_offered(run_ids, error)

    async def _serve(self) -> None:
        """Have the courier bring runs; one that fails, or returns, is asked again."""
        while True:
            try:
                await self.courier.serve(self._deliver, self._free)
            except StorageError as error:
                _log.warning("Worker `%s` takes no runs until its store is back: %s", self.name, error)
            except Exception:
                _log.exception("The courier of worker `%s` has failed, and is asked again.", self.name)
            await asyncio.sleep(self.beats.heartbeat / 2)

    async def _free(self) -> int:
        while (room := self.concurrency - len(self._legs)) < 1:
            self._room.clear()
            await self._room.wait()
        return room

    async def _deliver(self, run_ids: Sequence[str] | None = None) -> Sequence[Awaitable[None]]:
        """See `Deliver`."""
        app = self.runner.app_name
        if run_ids is None and not await self.registry.has_ready(app, self._takes):
            return ()
        async with self._claiming:  # the beats do not take what was just claimed for what was forgotten
            room = self.concurrency - len(self._legs)
            if room < 1:
                return ()
            claimed, blocked = await self.registry.claim(app, self.name, self._takes, room, run_ids, self._pin)
            begun = [self._begin(each) for each in claimed]
        if blocked:
            asyncio.get_running_loop().call_later(BLOCKED, self._ring)
        return begun

    def _begin(self, claimed: Claimed) -> Awaitable[None]:
        row = claimed.row
        leg = self._legs[row.run_id] = Leg(self, claimed)
        if row.leg == row.attempts == 1 and row.started is not None:
            metrics.begun(row.app_name, row.started - max(row.created, row.due))
        self.channel.begin(row.run_id, row.attempts)
        task = asyncio.create_task(self._run(leg), name=f"flowloom run {claimed.row.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, leg: Leg) -> None:
        ended: Ended | None = None
        run_id = leg.row.run_id
        try:
            ended = await leg.run()
        except RunLostError:
            pass
        except Exception as error:
            _log.exception("Run `%s` could not be run by worker `%s`.", run_id, self.name)
            with contextlib.suppress(StorageError):
                ended = await self.registry.finish(leg.row, failure(error))
        finally:
            if self._legs.get(run_id) is leg:
                del self._legs[run_id]
            self._room.set()
            self.channel.end(run_id)
        if ended is None:
            await self._tell_of_loss(run_id)
            return
        if ended.woken or ended.status == "waiting":
            self._changed.set()
        await self._offer(ended.ready)

    async def _tell_of_loss(self, run_id: str) -> None:
        metrics.fenced(self.runner.app_name)
        other = "another one"
        with contextlib.suppress(StorageError):
            row = await self.registry.find(run_id)
            other = f"`{row.worker}`" if row is not None and row.worker is not None else other
        _log.warning("Worker `%s` has lost run `%s`: %s has it.", self.name, run_id, other)

    # -- what is to be done from time to time ------------------------------------------------------------

    async def _keep_house(self) -> None:
        """Admit runs whose time has come, offer again what stays ready, forget what is long over."""
        loop = asyncio.get_running_loop()
        swept = forgot = loop.time()
        app = self.runner.app_name
        while True:
            pause = self._sweep
            try:
                taken, self._taken_over = self._taken_over, []
                await self._offer(taken)
                ready, rest = await self.registry.promote(app)
                await self._offer(ready)
                if loop.time() - swept >= self._sweep:
                    swept = loop.time()
                    await self._offer(await self.registry.expire(app))
                    await self._offer(await self.registry.left_ready(app))
                if self._counts.wanted:
                    self._counts.wanted, self._counts.latest = False, await self.registry.counts(app)
                if loop.time() - forgot >= _FORGETTING:
                    forgot = loop.time()
                    await self.registry.forget_ended(self._keep_runs)
                scheduled, due = await self.registry.submit_due(app)  # last: one that fails keeps nothing else
                await self._offer(scheduled)
                pause = min([self._sweep, *(each for each in (rest, due) if each is not None)])
            except StorageError:
                pause = self.beats.heartbeat
            except Exception:
                _log.exception("Worker `%s` could not keep house; it does so again.", self.name)
                pause = self.beats.heartbeat
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):  # `wait_for` of Python 3.11 may lose a cancel
                    await self._changed.wait()
            self._changed.clear()
