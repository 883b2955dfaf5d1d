"""`PostgresDatabase`: a PostgreSQL server, reached through psycopg's pool by a few threads.

Needs the extra `postgres`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Generator, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flowloom.errors import ConfigurationError, StorageError
from flowloom.extras import absent, missing_extra, require
from flowloom.objects.forks import in_forked_child
from flowloom.sql.database import (
    ALL_LANES,
    Cursor,
    Database,
    Job,
    Work,
    cannot_hold,
    capitalized,
    check_usable,
    earlier_failure,
    reply,
)

try:
    import psycopg
    from psycopg import conninfo, errors
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as error:
    if TYPE_CHECKING:
        raise
    psycopg = conninfo = errors = ConnectionPool = PoolTimeout = absent(
        missing_extra("PostgreSQL needs psycopg and its pool", "postgres", error)
    )

T = TypeVar("T")
AnyJob = Job[Any]

MAX_CONNECTIONS = 8
MAX_BATCH = 100
BUFFERED_SECONDS = 0.01
"""How long a `write_buffered` waits for company, in seconds."""
CONNECT_TIMEOUT = 15.0
"""How long to try to reach the server, in seconds."""
OLDEST = 130_000
"""The oldest PostgreSQL that is used, as its server tells its version."""
STOPPED_AFTER = 5.0
"""Seconds after which a transaction in which nothing happens is that of a process that was stopped."""
ATTEMPTS = 12
"""How often a transaction is tried that other transactions are in the way of."""

_READERS = object()  # reads have no lane


class PostgresDatabase(Database):
    """A database of a PostgreSQL server.

    `dsn`: as libpq takes it, `postgresql://user@host/database` or `host=... dbname=...`. At most `max_connections`
    are open at once; they are made as they are needed.

    Raises `ConfigurationError` for a `dsn` that cannot be read, `MissingExtraError` without psycopg.
    """

    dialect = "postgres"

    def __init__(self, dsn: str, *, max_connections: int = MAX_CONNECTIONS) -> None:
        require(psycopg)
        try:
            fields = conninfo.conninfo_to_dict(dsn)
        except psycopg.Error as error:
            raise ConfigurationError(
                "The `dsn` of a PostgreSQL database cannot be read. Give it as `postgresql://user@host:5432/database`."
            ) from error
        if max_connections < 1:
            raise ConfigurationError(f"`max_connections` is at least 1, not {max_connections}.")
        where = f"{fields.get('host') or 'localhost'}:{fields.get('port') or 5432}"
        super().__init__(f"the PostgreSQL database `{fields.get('dbname') or fields.get('user') or ''}` at {where}")
        self._core = _Core(dsn, self.name, max_connections)
        weakref.finalize(self, self._core.stop).atexit = False

    async def read(self, work: Work[T]) -> T:
        job = Job(work, False, _READERS, awaited=True)
        self._core.submit(job)
        return await job.wait()

    async def write(self, work: Work[T], *, durable: bool = True, lane: Hashable = None) -> T:
        job = Job(work, durable, lane, awaited=True)
        self._core.submit(job)
        return await job.wait()

    def write_buffered(self, work: Work[object], *, durable: bool = True, lane: Hashable = None) -> AnyJob:
        job: AnyJob = Job(work, durable, lane, awaited=False)
        self._core.submit(job)
        return job

    def withdraw(self, job: AnyJob) -> bool:
        return self._core.withdraw(job)

    async def flush(self, *, lane: Hashable = ALL_LANES) -> None:
        if lane is not ALL_LANES:
            return await self._wait_for(lane) if self._core.is_busy(lane) else None
        jobs = self._core.flush_jobs()
        for job in jobs:
            self._core.submit(job)
        found: BaseException | None = None
        for job in jobs:
            try:
                await job.wait()
            except Exception as error:
                found = found or error
        found = self._core.take_failure() or found
        if found is not None:
            raise found
        return None

    async def _wait_for(self, lane: Hashable) -> None:
        job: Job[None] = Job(None, True, lane, awaited=True)
        self._core.submit(job)
        await job.wait()

    async def notices(self, channel: str) -> AsyncGenerator[str, None]:
        try:
            async with await self._core.listening() as connection:
                await connection.execute(f"LISTEN {channel}".encode())
                yield ""
                async for notice in connection.notifies():
                    yield notice.payload
        except psycopg.Error as error:
            raise self._core.translated(error) from error

    async def close(self) -> None:
        try:
            if not self._core.closed:
                await self.flush()
        finally:
            self._core.stop()
            self._core.join()


def _configure(connection: psycopg.Connection[Any]) -> None:
    """Have the server end a transaction whose process was stopped in the middle of it: others wait for its locks."""
    connection.execute(f"SET idle_in_transaction_session_timeout = {int(STOPPED_AFTER * 1000)}".encode())


class PostgresConnection:
    """A connection as works know it: parameters are written `?`."""

    _translated: dict[str, str] = {}  # noqa: RUF012 - the statements of this package, which are few

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """Run one statement."""
        return cast(Cursor, self._connection.execute(self._native(sql), parameters))

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run one statement for each row of parameters."""
        with self._connection.cursor() as cursor:
            cursor.executemany(self._native(sql), rows)
        return None

    def _native(self, sql: str) -> Any:
        native = self._translated.get(sql)
        if native is None:
            native = self._translated[sql] = sql.replace("%", "%%").replace("?", "%s")
        return native


class _Core:
    """Queues, threads and the pool. It does not know its database, so that one that is dropped can end it."""

    def __init__(self, dsn: str, name: str, max_connections: int) -> None:
        self.name = name
        self.closed = False
        self._process = os.getpid()
        self._dsn = dsn
        self._limit = max_connections
        self._changed = threading.Condition(threading.RLock())  # garbage collection may call `stop` anywhere
        self._reads: deque[AnyJob] = deque()
        self._lanes: OrderedDict[Hashable, deque[AnyJob]] = OrderedDict()  # with something to do, and not being done
        self._busy: dict[Hashable, deque[AnyJob]] = {}  # what came for a lane that is being done
        self._due: dict[Hashable, float] = {}  # when a lane has to be done in which no caller waits
        self._failures: dict[Hashable, BaseException] = {}  # of works that were not awaited, by lane
        self._threads: list[threading.Thread] = []
        self._alive = self._idle = 0
        self._opening = threading.Lock()
        self._pool: ConnectionPool[psycopg.Connection[Any]] | None = None

    # -- from any thread ---------------------------------------------------------------------------

    def submit(self, job: AnyJob) -> None:
        with self._changed:
            check_usable(self.name, self.closed, self._process)
            lane = job.lane
            if lane is _READERS:
                self._reads.append(job)
            elif lane in self._busy:
                self._busy[lane].append(job)
            else:
                self._lanes.setdefault(lane, deque()).append(job)
                if job.future is not None:
                    self._due.pop(lane, None)
                elif len(self._lanes[lane]) == 1:
                    self._due[lane] = time.monotonic() + BUFFERED_SECONDS
            if self._idle < len(self._reads) + len(self._lanes) and len(self._threads) < self._limit:
                self._start()
            self._changed.notify()

    def withdraw(self, job: AnyJob) -> bool:
        with self._changed:
            waiting = self._lanes.get(job.lane) or self._busy.get(job.lane) or deque[AnyJob]()
            if job not in waiting:
                return False
            waiting.remove(job)
            if not waiting and job.lane in self._lanes:
                del self._lanes[job.lane]
                self._due.pop(job.lane, None)
            return True

    def is_busy(self, lane: Hashable) -> bool:
        """Whether something waits in a lane, is being done, or has failed."""
        with self._changed:
            return lane in self._lanes or lane in self._busy or lane in self._failures

    def flush_jobs(self) -> list[AnyJob]:
        """A job for each lane in which something is to be done."""
        with self._changed:
            return [Job(None, True, lane, awaited=True) for lane in (*self._lanes, *self._busy)]

    def take_failure(self) -> BaseException | None:
        """The first error of a work that was not awaited; all are forgotten."""
        with self._changed:
            found = next(iter(self._failures.values()), None)
            self._failures.clear()
            return found

    def stop(self) -> None:
        """Have the threads end when they have done what waits."""
        with self._changed:
            self.closed = True
            self._due.clear()
            self._changed.notify_all()

    def forget(self) -> None:
        """Be of no use in a forked process, and in no one's way."""
        self._changed, self._opening = threading.Condition(threading.RLock()), threading.Lock()

    def join(self) -> None:
        """Wait for the threads to end, and close the connections."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        _CORES.discard(self)

    def _start(self) -> None:
        # daemons: a program that forgot to close may end, after `_finish_all`
        thread = threading.Thread(target=self._work, name="flowloom-postgres", daemon=True)
        self._threads.append(thread)
        self._alive += 1
        _CORES.add(self)
        thread.start()

    # -- the threads -------------------------------------------------------------------------------

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            lane, jobs = taken
            try:
                self._do(lane, jobs)
            except BaseException as error:
                missed = all(job.future is None for job in jobs)
                for job in jobs:
                    job.error = self.translated(error)
                    if missed and job.is_missed:
                        self._failures.setdefault(lane, job.error)
            self._settle(lane, jobs)
            reply(jobs)
            del taken, jobs
        with self._changed:
            self._alive -= 1
            pool = None if self._alive else self._pool
        if pool is not None:
            pool.close(timeout=5.0)

    def _take(self) -> tuple[Hashable, list[AnyJob]] | None:
        """The next lane to do with what waits in it, or one read; None at the end."""
        with self._changed:
            while True:
                if self._reads:
                    return _READERS, [self._reads.popleft()]
                pause: float | None = None
                now = time.monotonic()
                for lane, waiting in self._lanes.items():
                    rest = self._due.get(lane, now) - now
                    if rest > 0:
                        pause = rest if pause is None else min(rest, pause)
                        continue
                    return lane, self._begin(lane, waiting)
                if self.closed and pause is None:
                    return None
                self._idle += 1
                self._changed.wait(pause)
                self._idle -= 1

    def _begin(self, lane: Hashable, waiting: deque[AnyJob]) -> list[AnyJob]:
        jobs = [waiting.popleft() for _ in range(min(len(waiting), MAX_BATCH))]
        del self._lanes[lane]
        self._due.pop(lane, None)
        self._busy[lane] = waiting
        return jobs

    def _settle(self, lane: Hashable, jobs: list[AnyJob]) -> None:
        """The lane can be done again."""
        if lane is _READERS:
            return
        with self._changed:
            came = self._busy.pop(lane)
            if came:
                self._lanes[lane] = came
                if all(job.future is None for job in came) and not self.closed:
                    self._due[lane] = time.monotonic() + BUFFERED_SECONDS
                self._changed.notify()

    def _do(self, lane: Hashable, jobs: list[AnyJob]) -> None:
        if all(job.work is None for job in jobs):
            return
        reading = lane is _READERS
        durable = any(job.durable for job in jobs)
        started = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._connection() as connection:
                    self._transact(connection, lane, jobs, reading=reading, durable=durable)
                return
            except _conflicts():
                if attempt == ATTEMPTS:
                    raise
            except psycopg.OperationalError as error:
                # A write whose commit was cut off may have happened; works may be repeated all the same, for what
                # they write goes by ids.
                if (
                    attempt == ATTEMPTS
                    or isinstance(error, PoolTimeout)
                    or time.monotonic() - started > CONNECT_TIMEOUT
                ):
                    raise
            time.sleep(min(0.002 * 2**attempt, 0.2) * random.random())

    def _transact(
        self, connection: psycopg.Connection[Any], lane: Hashable, jobs: list[AnyJob], *, reading: bool, durable: bool
    ) -> None:
        connection.read_only = reading
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ if reading else None
        for safe in (False, True):  # with a savepoint each only if one of them fails
            failures = {lane: self._failures[lane]} if lane in self._failures else {}
            with contextlib.suppress(_RolledBack), connection.transaction():
                if not durable and not reading:
                    connection.execute("SET LOCAL synchronous_commit TO off")
                if not self._run(connection, jobs, failures, safe=safe):
                    raise _RolledBack
            if safe or not any(job.error is _UNDONE for job in jobs):
                break
        with self._changed:
            self._failures.pop(lane, None)
            self._failures.update(failures)

    def _run(
        self,
        connection: psycopg.Connection[Any],
        jobs: list[AnyJob],
        failures: dict[Hashable, BaseException],
        *,
        safe: bool,
    ) -> bool:
        """Do the works of a lane. False if one failed and there was no savepoint to go back to."""
        given = PostgresConnection(connection)
        for job in jobs:
            job.error = earlier_failure(job, failures)
            if job.work is None or job.error is not None or failures:
                continue
            try:
                if safe:
                    with connection.transaction():
                        job.result = job.work(given)
                else:
                    job.result = job.work(given)
            except Exception as error:
                if _may_pass(error):
                    raise
                if not safe:
                    job.error = _UNDONE
                    return False
                job.error = self.translated(error)
                if job.is_missed:
                    failures[job.lane] = job.error
        return True

    # -- connections -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _connection(self) -> Generator[psycopg.Connection[Any]]:
        with self._opening:
            if self._pool is None:
                psycopg.connect(self._dsn, connect_timeout=int(CONNECT_TIMEOUT)).close()  # the pool would not say why
                self._pool = ConnectionPool(
                    self._dsn,
                    kwargs={"autocommit": True, "application_name": "flowloom"},
                    configure=_configure,
                    min_size=0,
                    max_size=self._limit,
                    timeout=CONNECT_TIMEOUT,
                    name="flowloom",
                    open=True,
                )
            pool = self._pool
        with pool.connection() as connection:
            if connection.info.server_version < OLDEST:
                version = connection.info.server_version // 10_000
                raise ConfigurationError(
                    f"{capitalized(self.name)} is on PostgreSQL {version}, which is too old: flowloom needs "
                    f"{OLDEST // 10_000} or newer. Upgrade the server, or give a store on another one."
                )
            yield connection

    async def listening(self) -> psycopg.AsyncConnection[Any]:
        """A connection of its own, on which notices come in."""
        options: dict[str, Any] = {"autocommit": True, "application_name": "flowloom", "keepalives_idle": 30}
        return await psycopg.AsyncConnection.connect(self._dsn, **options)

    def translated(self, error: BaseException) -> BaseException:
        if isinstance(error, (UnicodeEncodeError, psycopg.DataError, errors.ProgramLimitExceeded)):
            return cannot_hold(self.name, error)
        if not isinstance(error, psycopg.Error):
            return error
        if isinstance(error, _conflicts()):
            remedy = f"Other transactions were in the way {ATTEMPTS} times in a row; try again."
        elif isinstance(error, psycopg.OperationalError):
            remedy = "Look whether the server runs, can be reached from here, and knows this user and database."
        else:
            remedy = "Look at the server's log for more."
        text = str(error).partition("\n")[0].rstrip(".")
        translated = StorageError(f"{capitalized(self.name)} cannot be used: {text}. {remedy}")
        translated.__cause__ = error
        return translated


def _conflicts() -> tuple[type[psycopg.Error], ...]:
    """What a transaction fails with that others are in the way of, or that has stood still for too long."""
    stopped = errors.IdleInTransactionSessionTimeout
    return errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable, stopped


def _may_pass(error: Exception) -> bool:
    """Whether a transaction that failed so may succeed if it is done again."""
    return isinstance(error, (*_conflicts(), psycopg.OperationalError)) and not isinstance(
        error, errors.ProgramLimitExceeded
    )


class _RolledBack(Exception):
    """Takes a transaction back that is to be tried again."""


_UNDONE: BaseException = _RolledBack()
_CORES: weakref.WeakSet[_Core] = weakref.WeakSet()


@in_forked_child
def _forget_in_child() -> None:
    """A forked process has none of the threads, and locks that one of them may have held for good."""
    for core in _CORES:
        core.forget()


@atexit.register
def _finish_all() -> None:
    """What was asked for is written before the program ends, even if the database was not closed."""
    cores = list(_CORES)
    for core in cores:
        core.stop()
    for core in cores:
        core.join()
