"""`DbosCourier`: the courier for fleets on PostgreSQL, by the queues of DBOS (durable design, sections 2 and 11).

DBOS brings the ids of runs, and nothing else: no content of a run is written to its tables, and neither its order nor
its recovery is relied on. The row of a run is there from the offer until its leg is over. Needs the extra `dbos`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from flowloom.durable.courier import Deliver, Free, not_offered
from flowloom.errors import ConfigurationError, StorageError
from flowloom.events.ids import new_id
from flowloom.extras import absent, missing_extra, require
from flowloom.sql.postgres import STOPPED_AFTER

try:
    from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions
    from dbos import error as dbos_error
    from sqlalchemy import Engine, create_engine, event, make_url
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as error:
    if TYPE_CHECKING:
        raise
    DBOS = DBOSClient = DBOSPortableJSONSerializer = absent(missing_extra("`DbosCourier` needs DBOS", "dbos", error))

_log = logging.getLogger("flowloom.durable")
_T = TypeVar("_T")
SCHEMA = "flowloom_dbos"
"""Where DBOS has its tables, so that they are not those of a program that uses DBOS itself."""
VERSION = "flowloom"
"""The version of the application that DBOS is told: the same for all deployments, because the log says how a run goes
on, and not the code."""
BRING = "flowloom.bring"
AT_ONCE = 32
"""How many runs DBOS gives to one worker at once; what the worker has no room for waits in it until it is swept."""
POLL = 0.1
"""Seconds between two looks of DBOS at its queue."""
FRESH = 1.0
"""For how many seconds a row counts as just taken from the queue."""
LOCKED_FOR = 2.0
"""Seconds after which an offer waits no longer for a row that another process has locked, which may have been stopped;
less than `STOPPED_AFTER`, so that of many stopped processes none keeps the next one's locks."""
TIDYING = 0.5
"""Seconds between two times that rows are deleted whose legs are over."""

_holder: DbosCourier | None = None
"""The courier that has this process's DBOS."""


class DbosCourier:
    """Brings runs by a queue of DBOS, in the PostgreSQL database of the URL `dsn`, at least once.

    `queue` names the queue: workers and clients of one app have the same, and apps that share a database one each.
    DBOS is one for each process, so a process has one worker with this courier at most, and none if the program uses
    DBOS itself. Any number of clients can offer runs.

    Raises `ConfigurationError` for a `dsn` that is not a PostgreSQL URL, `MissingExtraError` without the extra `dbos`.
    """

    def __init__(self, dsn: str, *, queue: str = "flowloom") -> None:
        require(DBOS)
        if not dsn.startswith(("postgresql://", "postgres://")) or not urlsplit(dsn).path.strip("/"):
            raise ConfigurationError(
                "`DbosCourier` needs PostgreSQL: give the URL of the database (`postgresql://user@host/name`), or have "
                "the runs brought by a `StoreCourier`."
            )
        if not queue or queue.startswith("_dbos_"):
            raise ConfigurationError("`queue` is a name, and none that begins with `_dbos_`: those are DBOS's own.")
        self._dsn = dsn
        self._queue = queue
        self._client: DBOSClient | None = None
        self._pool: Engine | None = None
        """The connections of the client."""
        self._opening, self._closing = asyncio.Lock(), asyncio.Lock()
        self._taking = asyncio.Lock()
        """One run is taken after the other, so that there is room for it."""
        self._engine: DBOS | None = None
        self._executor = ""
        """By which name it takes rows from the queue."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hands: tuple[Deliver, Free] | None = None
        self._waiting: dict[str, str] = {}
        """The runs that were brought and not taken yet, by the ids of their rows."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work: set[asyncio.Task[Any]] = set()
        """What threads do in the database; a cancel of who waits for it does not end it."""
        self._over: set[str] = set()
        """The rows whose legs are over."""
        self._rung = asyncio.Event()

    # -- offering ----------------------------------------------------------------------------------------

    async def offer(self, run_ids: Sequence[str]) -> None:
        """Put the runs of `run_ids` into the queue. Raises `StorageError` if the database cannot be reached."""
        if run_ids:
            client = await self._opened()
            await self._in_thread(lambda: [self._enqueue(client, run_id) for run_id in run_ids])

    def _enqueue(self, client: DBOSClient, run_id: str) -> None:
        """Have one row for a run. One that was taken from the queue is of a leg that is over, and gone in a moment; of
        a run that is just being claimed; or of a worker that is dead or has no room: that one makes way."""
        until = time.monotonic() + FRESH
        while True:
            options: EnqueueOptions = {
                "workflow_name": BRING,
                "queue_name": self._queue,
                "workflow_id": f"{run_id}/{new_id()}",
                "app_version": VERSION,
                "deduplication_id": run_id,
                "duplication_policy": "return-existing",
            }
            there = client.enqueue(options, run_id).workflow_id
            if there == options["workflow_id"]:
                return
            for row in client.list_workflows(workflow_ids=[there], load_input=False, load_output=False):
                if row.status == "ENQUEUED" or time.monotonic() > until:
                    return
                if time.time() - (row.dequeued_at or 0) / 1000 > FRESH:
                    client.delete_workflows([there])
                else:
                    time.sleep(FRESH / 20)

    async def withdraw(self, run_id: str) -> None:
        """See `Courier.withdraw`: `run_id` is not ready any more, so that its row brings nothing."""

    async def _opened(self) -> DBOSClient:
        """The connection for offers; the tables are made if they are not there."""
        async with self._opening:
            if self._client is None:
                self._client = await self._in_thread(self._open)
            return self._client

    def _open(self) -> DBOSClient:
        DBOS.migrate(self._dsn, schema=SCHEMA)
        self._pool = self._pool or _pool(self._dsn)
        return DBOSClient(
            system_database_engine=self._pool,
            dbos_system_schema=SCHEMA,
            serializer=DBOSPortableJSONSerializer(),
            application_name=VERSION,
            retry_connection_errors=False,
        )

    # -- serving -----------------------------------------------------------------------------------------

    async def check(self) -> None:
        """See `Courier.check`. Takes this process's DBOS, until `close`.

        Raises `ConfigurationError` if it has one already, `StorageError` if the database cannot be used.
        """
        self._take_engine()
        try:
            await self._opened()
        except BaseException:
            await self._release()
            raise

    def _take_engine(self) -> DBOS:
        global _holder
        if self._engine is not None:
            return self._engine
        if _holder is not None:
            raise ConfigurationError(
                "This process has a worker with a `DbosCourier` already, and DBOS is one for each process: start "
                "another process (`flowloom worker`) for the second, or give the first a higher `concurrency`."
            )
        self._executor = new_id()
        config: DBOSConfig = {
            "name": VERSION,
            "system_database_url": self._dsn,
            "dbos_system_schema": SCHEMA,
            "application_version": VERSION,
            "executor_id": self._executor,
            "serializer": DBOSPortableJSONSerializer(),
            "sys_db_pool_size": 4,
            "sys_db_idle_transaction_timeout_sec": STOPPED_AFTER,
            "log_level": "WARNING",
        }
        kind: Any = type("FlowloomDbos", (DBOS,), {})
        engine = kind(config=config)  # that of the program, if there is one
        if not isinstance(engine, kind):
            raise ConfigurationError(
                "This program uses DBOS itself, and DBOS is one for each process: run workers in processes of their "
                "own (`flowloom worker`), or give this one a `StoreCourier`. Clients can stay here."
            )
        _holder, self._engine = self, engine
        return engine

    async def serve(self, handle: Deliver, free: Free) -> None:
        """See `Courier.serve`: `handle` takes runs, `free` tells for how many there is room.

        Raises `ConfigurationError` and `StorageError` as `check` does.
        """
        self._take_engine()
        self._loop, self._hands = asyncio.get_running_loop(), (handle, free)
        try:
            await self._opened()
            await _finished(self._in_thread(self._launch))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tidy())
                group.create_task(self._answer())
        finally:
            self._hands = None
            await self._release()

    def _launch(self) -> None:
        logging.getLogger("dbos").addFilter(_is_news)
        DBOS.workflow(name=BRING)(_bring)
        DBOS.listen_queues([self._queue])
        DBOS.launch()
        DBOS.register_queue(
            self._queue, worker_concurrency=AT_ONCE, polling_interval_sec=POLL, on_conflict="always_update"
        )

    def ring(self) -> None:
        """Have the worker look for ready runs at once, whoever brings them."""
        self._rung.set()

    async def _answer(self) -> None:
        """Take ready runs when rung: those that were brought while their session was in use."""
        while self._hands is not None:
            await self._rung.wait()
            self._rung.clear()
            handle, free = self._hands
            async with self._taking:
                await free()
                try:
                    await handle()
                except Exception as error:
                    _log.warning("Ready runs wait for a sweep: %s", error, exc_info=not isinstance(error, StorageError))

    def bring(self, row: str, run_id: str) -> Future[None]:
        """The run `run_id` has come to this process, by its `row`, in a thread of DBOS: what is done when its leg is
        over."""
        assert self._loop is not None
        ended = Future[None]()
        self._loop.call_soon_threadsafe(self._begin, row, run_id, ended)
        return ended

    def _begin(self, row: str, run_id: str, ended: Future[None]) -> None:
        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            with contextlib.suppress(InvalidStateError):  # DBOS has stopped, and waits no more
                ended.set_result(None)

        self._waiting[row] = run_id
        task = asyncio.create_task(self._take(row, run_id), name=f"flowloom brings {run_id}")
        self._tasks.add(task)
        task.add_done_callback(end)

    async def _take(self, row: str, run_id: str) -> None:
        """Give a run to the worker as soon as there is room, and wait until its leg is over."""
        async with self._taking:
            if self._hands is not None:
                await self._hands[1]()
            if self._hands is None or self._waiting.pop(row, None) is None:  # it was offered to others
                return
            try:
                begun = await self._hands[0]([run_id])
            except Exception as error:
                not_offered([run_id], error)
                begun = ()
        try:
            if begun:
                await asyncio.wait([asyncio.ensure_future(each) for each in begun])  # which cancels no leg
        finally:
            self._over.add(row)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDYING)
            try:
                await self._delete_over()
            except StorageError:
                continue  # DBOS waits for its database to come back, and says so
            except Exception:
                _log.exception("Rows of runs that are over could not be deleted; they are again, in a while.")

    async def _delete_over(self) -> None:
        """Delete the rows whose legs are over, as soon as DBOS has written that they are."""
        client, over = self._client, list(self._over)
        if client is None or not over:
            return
        pending = await self._in_thread(lambda: client.list_workflows(workflow_ids=over, status="PENDING"))
        over = list({*over} - {row.workflow_id for row in pending})
        await self._in_thread(lambda: client.delete_workflows(over))
        self._over.difference_update(over)

    # -- ending ------------------------------------------------------------------------------------------

    async def _release(self) -> None:
        """Have no more runs brought. Legs go on; runs that no leg has begun are offered to others."""
        global _holder
        if self._engine is None:
            return
        try:
            await _finished(self._in_thread(DBOS.destroy))
        finally:
            logging.getLogger("dbos").removeFilter(_is_news)
            self._engine = _holder = None
        left = list(self._waiting.values())
        self._waiting.clear()
        try:
            await self.offer(left)
        except StorageError as error:
            _log.warning("%d runs that were brought are brought again by a sweep: %s", len(left), error)

    async def close(self) -> None:
        """See `Courier.close`. A cancel counts when it is done."""
        await _finished(self._close())

    async def _close(self) -> None:
        async with self._closing:
            await self._hang_up()

    async def _hang_up(self) -> None:
        await self._release()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        async with self._opening:  # an offer may be about to open it
            client, self._client = self._client, None
        if client is not None:
            try:
                await self._in_thread(lambda: self._delete_taken(client))
            except StorageError as error:
                _log.warning("Rows of runs that are over stay in the tables of DBOS: %s", error)
            await self._in_thread(client.destroy)
        if self._at_work:
            await asyncio.wait(self._at_work)
        if self._pool is not None:
            self._pool.dispose()

    def _delete_taken(self, client: DBOSClient) -> None:
        """Delete all rows that this worker took from the queue: no leg of its own goes on, and what DBOS had taken and
        not begun when it was ended it never will."""
        if self._executor:
            taken = client.list_workflows(executor_id=self._executor, load_input=False, load_output=False)
            client.delete_workflows([row.workflow_id for row in taken])

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """What DBOS does, which waits for its database, in a thread. Raises `StorageError` if the database fails."""
        task = asyncio.create_task(asyncio.to_thread(work), name="flowloom DBOS at work")
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        try:
            return await asyncio.shield(task)
        except (SQLAlchemyError, dbos_error.DBOSException) as error:
            raise StorageError(f"The database of the queue cannot be used: {type(error).__name__}: {error}") from error


def _pool(dsn: str) -> Engine:
    """Connections for offers. The server ends what a process has begun that was stopped in the middle of it, and no
    offer waits long for it: others offer the same runs, and their beats must not be late."""
    url = make_url(dsn).set(drivername="postgresql+psycopg")
    arguments = {"application_name": VERSION, "connect_timeout": 10}
    pool = create_engine(url, pool_size=2, max_overflow=0, pool_pre_ping=True, connect_args=arguments)

    @event.listens_for(pool, "connect")
    def configure(connection: Any, record: object) -> None:
        connection.execute(f"SET idle_in_transaction_session_timeout = {int(STOPPED_AFTER * 1000)}")
        connection.execute(f"SET lock_timeout = {int(LOCKED_FOR * 1000)}")
        connection.commit()

    _ = configure
    return pool


def _is_news(record: logging.LogRecord) -> bool:
    """Whether what DBOS logs tells of more than a row that is gone (that of a run which was offered to others, or taken
    over, made way for theirs, and the worker says what became of the run), or that this process has served before."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, dbos_error.DBOSNonExistentWorkflowError):
        return False
    return not any(
        known in str(record.msg) for known in ("outcome was not recorded", f"registration of function '{BRING}'")
    )


async def _bring(run_id: str) -> None:
    """What DBOS runs for each row of the queue."""
    row, holder = DBOS.workflow_id, _holder
    if holder is not None and row is not None:
        await asyncio.wrap_future(holder.bring(row, run_id))


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Wait for the end of `work`, which cannot be broken off in the middle; a cancel counts then."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    task.result()
