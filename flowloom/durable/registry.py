"""`Registry`: which runs wait, are ready, run, and are over, in the database of the sessions."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from flowloom.durable import schedules, sql_runs, sql_submit, sql_workers
from flowloom.durable.errors import RunNotFoundError
from flowloom.durable.limits import ConcurrencyLimit
from flowloom.durable.records import Changed, Outcome, Row, WorkerRow
from flowloom.durable.schema import DURABLE
from flowloom.durable.sql_runs import Claimed, Ended, Setting
from flowloom.durable.sql_submit import Submission
from flowloom.durable.sql_workers import Heard
from flowloom.errors import ConfigurationError
from flowloom.sessions import BaseSessionService
from flowloom.sessions.leases import Key, uptime
from flowloom.sessions.sql_schema import SESSIONS
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.sql import Connection

T = TypeVar("T")
_FORGOTTEN_AT_ONCE = 500


class Registry:
    """The runs of a store. `service` keeps the sessions, `limits` are those of the app.

    Raises `ConfigurationError` for a service that is not in SQLite or PostgreSQL.
    """

    def __init__(self, service: BaseSessionService, limits: Sequence[ConcurrencyLimit] = ()) -> None:
        if not isinstance(service, SqlSessionService):
            raise ConfigurationError(
                f"Runs that outlive their process need a store on the disk, and `{type(service).__name__}` is none. "
                f"Use a `SqliteSessionService` or a `PostgresSessionService`."
            )
        self.service = service
        self._database = service.database
        self.setting = Setting(self._database.dialect, tuple(limits))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives, once the tables are there."""
        await self.prepare()
        found = self._database.glance(work)
        return found[0] if found is not None else await self._database.read(work)

    async def write(self, work: Callable[[Connection], T], lane: Hashable, *, durable: bool = True) -> T:
        """The same in a transaction."""
        await self.prepare()
        return await self._database.write(work, durable=durable, lane=lane)

    async def prepare(self) -> None:
        """The tables are there. Raises `StorageError` for those of a newer release."""
        if DURABLE.name not in self._database.schemas:
            await SESSIONS.ensure(self._database)
            await DURABLE.ensure(self._database)

    # -- runs ----------------------------------------------------------------------------------------

    async def submit(self, given: Submission) -> Changed:
        """See `sql_submit.submit`."""
        return await self.write(lambda c: sql_submit.submit(c, self.setting, given), ("run", given.run_id))

    async def find(self, run_id: str) -> Row | None:
        """The row of a run; None if there is none."""
        dialect = self.setting.dialect
        return await self.read(lambda c: sql_runs.find(c, run_id, dialect))

    async def change(self, change: Callable[..., Changed | None], run_id: str, *what: Any) -> Changed:
        """Have one of the changes of `sql_runs` made. Raises `RunNotFoundError`."""
        work = partial(_applied, change, self.setting, run_id, what)
        changed = await self.write(work, ("run", run_id))
        if changed is None:
            raise not_found(run_id)
        return changed

    async def listed(
        self,
        app_name: str,
        status: Sequence[str],
        user_id: str | None,
        session_id: str | None,
        since: float | None,
        most: int,
    ) -> list[Row]:
        """Runs of an app, the latest first."""
        return await self.read(lambda c: sql_submit.listed(c, app_name, status, user_id, session_id, since, most))

    async def ahead(self, row: Row) -> int:
        """How many runs come before one that waits (see `sql_submit.ahead`)."""
        return await self.read(lambda c: sql_submit.ahead(c, row))

    async def check_session(self, key: Key, most: int | None) -> None:
        """Raise `SessionBusyError` if one run more is too many of a session (see `sql_submit.check_session`)."""
        await self.read(lambda c: sql_submit.check_session(c, self.setting, key, most))

    async def app_names(self) -> set[str]:
        """The apps that have sessions or workers in the store."""
        rows, _ = await self.workers()
        return {*await self.service.app_names(), *(row.app_name for row in rows)}

    async def claim(
        self,
        app_name: str,
        worker: str,
        labels: Sequence[str],
        most: int,
        run_ids: Sequence[str] | None,
        pin: str | None = None,
    ) -> tuple[list[Claimed], bool]:
        """The first ready runs for a worker, or those of `run_ids` that are ready; with `pin`, they have that label
        from now on."""

        def work(c: Connection) -> tuple[list[Claimed], bool]:
            if run_ids is not None:
                return sql_runs.claim_these(c, self.setting, app_name, worker, labels, run_ids, pin)
            return sql_runs.claim(c, self.setting, app_name, worker, labels, most, pin)

        # lost with the machine, on SQLite: and with it all who could go by it
        return await self.write(work, ("claim", worker), durable=self.setting.dialect == "postgres")

    async def has_ready(self, app_name: str, labels: Sequence[str]) -> bool:
        """Whether a worker with these labels would find a ready run."""
        return await self.read(lambda c: sql_runs.has_ready(c, app_name, labels))

    async def finish(self, mine: Row, outcome: Outcome) -> Ended | None:
        """Note how a leg has ended."""
        return await self.write(lambda c: sql_runs.finish(c, self.setting, mine, outcome), ("run", mine.run_id))

    async def hand_back(self, mine: Row) -> Ended | None:
        """Let another worker go on with a run at once."""
        return await self.write(lambda c: sql_runs.hand_back(c, self.setting, mine), ("run", mine.run_id))

    async def try_again(self, mine: Row, wait: float, outcome: Outcome) -> Ended | None:
        """Let a run wait for some seconds, and go on then."""
        return await self.write(
            lambda c: sql_runs.try_again(c, self.setting, mine, wait, outcome), ("run", mine.run_id)
        )

    async def promote(self, app_name: str) -> tuple[list[str], float | None]:
        """Admit the runs whose time has come: those that are ready now, and the seconds until the next one's time."""
        due, rest = await self.read(lambda c: sql_submit.due_runs(c, self.setting, app_name, 100))
        ready: list[str] = []
        for run_id in due:
            work = partial(_promoted, self.setting, run_id)
            ready += await self.write(work, ("run", run_id))
        return ready, 0.0 if due else rest  # what was looked at may have woken others

    async def expire(self, app_name: str) -> list[str]:
        """End the runs that have not begun by their time; those that are ready because of it."""
        ready: list[str] = []
        for run_id in await self.read(lambda c: sql_submit.expired(c, self.setting, app_name, 100)):
            work = partial(_expired, self.setting, run_id)
            ready += await self.write(work, ("run", run_id))
        return ready

    async def left_ready(self, app_name: str) -> list[str]:
        """Some of the runs that are ready."""
        return await self.read(lambda c: sql_submit.left_ready(c, app_name, 100))

    async def forget_ended(self, seconds: float) -> None:
        """Drop the rows of runs that ended so long ago, some at a time: nothing else waits for long."""
        work = partial(_forgotten, self.setting, seconds)
        while await self.write(work, ("forget",), durable=False) == _FORGOTTEN_AT_ONCE:
            pass

    async def counts(self, app_name: str) -> dict[str, int]:
        """How many runs of an app wait, are ready and run, and how many workers it has."""
        return await self.read(lambda c: sql_submit.counts(c, app_name))

    # -- schedules -----------------------------------------------------------------------------------

    async def put_schedule(self, app_name: str, schedule: schedules.Schedule) -> float:
        """Keep a schedule; when it is due first."""
        return await self.write(lambda c: schedules.put(c, self.setting, app_name, schedule), ("schedule", app_name))

    async def delete_schedule(self, app_name: str, name: str) -> bool:
        """Forget a schedule; whether there was one."""
        return await self.write(lambda c: schedules.delete(c, app_name, name), ("schedule", app_name))

    async def schedules(self, app_name: str) -> Sequence[schedules.ScheduleInfo]:
        """The schedules of an app."""
        return await self.read(lambda c: schedules.listed(c, self.setting, app_name))

    async def submit_due(self, app_name: str) -> tuple[tuple[str, ...], float | None]:
        """Submit what is due: the runs that are ready then, and the seconds until the next schedule is due."""
        ready: tuple[str, ...] = ()
        while (rest := await self.read(lambda c: schedules.next_due(c, self.setting, app_name))) == 0:
            work = partial(_scheduled, self.setting, app_name)
            found = await self.write(work, ("schedule", app_name))
            if found is None:  # another worker is about it
                return ready, 1.0
            ready += found
        return ready, rest

    # -- workers -------------------------------------------------------------------------------------

    async def register(self, row: WorkerRow) -> None:
        """Put a worker into the registry."""
        limits = self.setting.limits
        await self.write(lambda c: sql_workers.register(c, self.setting, row, limits), ("worker", row.worker))

    async def beat(self, row: WorkerRow, *, reaps: bool) -> Heard | None:
        """Tell the registry that a worker lives; None if it was buried."""
        work = partial(_beaten, self.setting, row, uptime() if reaps else None)
        return await self.write(work, ("worker", row.worker), durable=False)

    async def bury(self, worker: str, beat: float) -> tuple[str, ...] | None:
        """Take its runs from a worker that is dead."""
        return await self.write(lambda c: sql_runs.bury(c, self.setting, worker, beat), ("bury", worker))

    async def leave(self, worker: str) -> tuple[str, ...]:
        """Take a worker out that ends; the runs that it had still are ready again."""

        def work(c: Connection) -> tuple[str, ...]:
            sql_workers.leave(c, worker)
            return sql_runs.take_runs(c, worker, died=False)

        return await self.write(work, ("worker", worker))

    async def workers(self, app_name: str | None = None) -> tuple[list[WorkerRow], float]:
        """The workers of an app, or all; and the time by which their beats are told."""
        return await self.read(lambda c: sql_workers.workers(c, self.setting, app_name))

    async def tell(self, app_name: str, what: Literal["ring", "look"], names: Sequence[str]) -> None:
        """Say something to workers of an app that listen, wherever they are: on PostgreSQL."""
        if self.setting.dialect == "postgres":
            values = channel_of(app_name), " ".join((what, *names))
            await self.write(lambda c: c.execute("SELECT pg_notify(?, ?)", values), ("tell", app_name), durable=False)

    def told(self, app_name: str) -> AsyncGenerator[str, None]:
        """What is said to the workers of an app by `tell`; see `Database.notices`."""
        return self._database.notices(channel_of(app_name))

    async def epoch_of(self, key: Key) -> tuple[int, int] | None:
        """The log and the epoch of a session."""
        return await self.read(lambda c: sql_workers.epoch_of(c, key))


def channel_of(app_name: str) -> str:
    """The name under which the workers of an app hear what is said to them."""
    return "flowloom_" + hashlib.sha256(app_name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def not_found(run_id: str) -> RunNotFoundError:
    """The error for a run that is not in the registry."""
    return RunNotFoundError(
        f"There is no run `{run_id}` here: it was never submitted to this app and store, or it ended so long ago that "
        f"its row was dropped (its log is in its session).",
        run_id=run_id,
    )


def _applied(
    change: Callable[..., Changed | None], setting: Setting, run_id: str, what: Sequence[Any], c: Connection
) -> Changed | None:
    return change(c, setting, run_id, *what)


def _promoted(setting: Setting, run_id: str, c: Connection) -> tuple[str, ...]:
    return sql_submit.promote(c, setting, run_id)


def _forgotten(setting: Setting, seconds: float, c: Connection) -> int:
    return sql_submit.forget_ended(c, setting, seconds, _FORGOTTEN_AT_ONCE)


def _scheduled(setting: Setting, app_name: str, c: Connection) -> tuple[str, ...] | None:
    return schedules.submit_due(c, setting, app_name)


def _expired(setting: Setting, run_id: str, c: Connection) -> tuple[str, ...]:
    return sql_submit.expire_one(c, setting, run_id)


def _beaten(setting: Setting, row: WorkerRow, began: float | None, c: Connection) -> Heard | None:
    return sql_workers.beat(c, setting, row, waited=None if began is None else uptime() - began)
