"""`SqliteDatabase`: one file, one thread that writes, a few that read.

Other processes may use the file at the same time. The writer takes whatever waits into one transaction, so that many
writers share one sync of the disk.
"""

from __future__ import annotations

import atexit
import os
import queue
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from flowloom.errors import ConfigurationError, FlowloomError, StorageError
from flowloom.objects.forks import in_forked_child
from flowloom.sql.database import (
    ALL_LANES,
    Database,
    Job,
    Work,
    cannot_hold,
    capitalized,
    check_usable,
    earlier_failure,
    reply,
)
from flowloom.sql.urls import sqlite_path

T = TypeVar("T")
AnyJob = Job[Any]

MAX_READERS = 4
MAX_BATCH = 500
BUFFERED_SECONDS = 0.01
"""How long a `write_buffered` waits for company, in seconds."""
LOOKS = 100
"""How often the writer looks for such works before it sleeps until it is woken."""
LOG_LOOKS = 0.25
"""Seconds between two looks at which file the log of writes is."""
LOCK_TIMEOUT = 60.0
"""How long to wait for other processes that write, in seconds."""
_BUSY, _LOCKED = 5, 6  # SQLite's result codes


OLDEST = (3, 35)
"""The oldest SQLite that is used, which knows `RETURNING`."""


class SqliteDatabase(Database):
    """A SQLite file in WAL mode; `:memory:` for one that lives as long as this object.

    `path`: the file, or `sqlite:///FILE`, made when it does not exist; its directory has to be there. A file that is
    deleted or replaced while it is open is a `StorageError` of every read and write that follows. Raises
    `ConfigurationError` for another URL, and if the SQLite of this Python is too old.
    """

    dialect = "sqlite"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise ConfigurationError(
                f"This Python has SQLite {sqlite3.sqlite_version}, which is too old: flowloom needs "
                f"{'.'.join(map(str, OLDEST))} or newer. Use another build of Python, or a store in PostgreSQL."
            )
        text = sqlite_path(os.fspath(path))
        super().__init__("the SQLite database in memory" if text == ":memory:" else f"the SQLite database `{text}`")
        self.path = text
        self._core = _Core(text if text == ":memory:" else os.path.abspath(text), self.name)
        weakref.finalize(self, self._core.stop).atexit = False

    async def read(self, work: Work[T]) -> T:
        job = Job(work, False, None, awaited=True)
        self._core.submit_read(job)
        return await job.wait()

    def glance(self, work: Work[T]) -> tuple[T] | None:
        return self._core.glance(work)

    async def write(self, work: Work[T], *, durable: bool = True, lane: Hashable = None) -> T:
        job = Job(work, durable, lane, awaited=True)
        self._core.submit_write(job)
        return await job.wait()

    def write_buffered(self, work: Work[object], *, durable: bool = True, lane: Hashable = None) -> AnyJob:
        job: AnyJob = Job(work, durable, lane, awaited=False)
        self._core.submit_soon(job)
        return job

    def withdraw(self, job: AnyJob) -> bool:
        return self._core.withdraw(job)

    async def flush(self, *, lane: Hashable = ALL_LANES) -> None:
        if self._core.started:
            job: Job[None] = Job(None, True, lane, awaited=True)
            self._core.submit_write(job)
            await job.wait()

    async def close(self) -> None:
        if self._core.started and not self._core.closed:
            job: Job[None] = Job(None, True, ALL_LANES, awaited=True)
            self._core.submit_write(job)
            self._core.stop()
            try:
                await job.wait()
            finally:
                self._core.join()
        self._core.closed = True


class _Core:
    """Queues, threads and connections. It does not know its database, so that one that is dropped can end it."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self.started = False
        self._process = os.getpid()
        self.closed = False
        self._lock = threading.RLock()  # garbage collection may call `stop` anywhere
        self._writes: queue.SimpleQueue[Sequence[AnyJob] | None] = queue.SimpleQueue()
        self._buffered: list[AnyJob] = []  # waits for a write, or until the writer looks
        self._asleep = False  # whether the writer has given up looking by itself
        self._reads: queue.SimpleQueue[AnyJob | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._readers: list[threading.Thread] = []
        self._reading = 0
        self._failures: dict[Hashable, BaseException] = {}  # of works that were not awaited, by lane
        self._sync = "FULL"
        self._glancer: sqlite3.Connection | None = None  # opened by the writer, used in the threads of the callers
        self._glancing = threading.Lock()
        self._files = None if path == ":memory:" else _Files(path, name)

    # -- from any thread ---------------------------------------------------------------------------

    def submit_write(self, job: AnyJob) -> None:
        with self._lock:
            self._check_open()
            if self._writer is None:
                self._writer = self._start(self._write_all, "writer")
            self._buffered.append(job)
            self._writes.put(self._take_soon())

    def submit_soon(self, job: AnyJob) -> None:
        """Waking the writer costs more than the write, so a work that is not awaited is left for it to find."""
        with self._lock:
            self._check_open()
            self._buffered.append(job)
            if self._writer is None:
                self._writer = self._start(self._write_all, "writer")
            elif self._asleep:
                self._asleep = False
                self._writes.put(())

    def withdraw(self, job: AnyJob) -> bool:
        with self._lock:
            if job not in self._buffered:
                return False
            self._buffered.remove(job)
            return True

    def _take_soon(self) -> list[AnyJob]:
        buffered, self._buffered = self._buffered, []
        return buffered

    def submit_read(self, job: AnyJob) -> None:
        if self.path == ":memory:":  # only its own connection sees it
            return self.submit_write(job)
        with self._lock:
            self._check_open()
            self._reading += 1
            if self._reading > len(self._readers) < MAX_READERS:
                self._readers.append(self._start(self._read_all, "reader"))
            self._reads.put(job)
        return None

    def glance(self, work: Work[T]) -> tuple[T] | None:
        connection = self._glancer
        if connection is None or not self._glancing.acquire(blocking=False):
            return None
        try:
            self._check_open()
            return (self._read(connection, work),)
        except sqlite3.Error:
            return None
        finally:
            self._glancing.release()

    def stop(self) -> None:
        """Have the threads end when they have done what waits."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            for _ in self._readers:
                self._reads.put(None)
            self._writes.put(self._take_soon())
            self._writes.put(None)

    def forget(self) -> None:
        """Be of no use in a forked process, and in no one's way."""
        self._lock, self._glancing = threading.RLock(), threading.Lock()

    def join(self) -> None:
        """Wait for the threads to end."""
        for thread in (*self._readers, *([self._writer] if self._writer else [])):
            if thread is not threading.current_thread():
                thread.join()
        _CORES.discard(self)

    def _check_open(self) -> None:
        check_usable(self.name, self.closed, self._process)

    def _start(self, run: Callable[[], None], what: str) -> threading.Thread:
        # daemons: a program that forgot to close may end, after `_finish_all`
        thread = threading.Thread(target=run, name=f"flowloom-sqlite-{what}", daemon=True)
        self.started = True
        _CORES.add(self)
        thread.start()
        return thread

    # -- the writer's thread -----------------------------------------------------------------------

    def _write_all(self) -> None:
        connection: sqlite3.Connection | None = None
        going = True
        while going:
            jobs, going = self._next_batch()
            if jobs:
                try:
                    if connection is None and any(job.work is not None for job in jobs):
                        connection = self._open()
                        if self.path != ":memory:":
                            self._glancer = self._open_reader(timeout=0)
                    self._write(connection, jobs)
                except BaseException as error:
                    self._fail(jobs, error)
                reply(jobs)
            del jobs
        for reader in self._readers:  # the last connection to close tidies up the files
            reader.join()
        with self._glancing:
            if self._glancer is not None:
                self._glancer.close()
                self._glancer = None
        if connection is not None:
            connection.close()

    def _next_batch(self) -> tuple[list[AnyJob], bool]:
        """What waits, up to the first end of the queue."""
        jobs: list[AnyJob] = []
        looks = 0
        while len(jobs) < MAX_BATCH:
            try:
                patience = None if self._asleep else BUFFERED_SECONDS
                came = self._writes.get_nowait() if jobs else self._writes.get(timeout=patience)
            except queue.Empty:
                if jobs:
                    break
                with self._lock:
                    jobs = self._take_soon()
                    looks += 1
                    self._asleep = looks > LOOKS and not jobs
                continue
            self._asleep = False
            if came is None:
                return jobs, False
            jobs.extend(came)
        return jobs, True

    def _write(self, connection: sqlite3.Connection | None, jobs: list[AnyJob]) -> None:
        if connection is None or all(job.work is None for job in jobs):
            for job in jobs:
                job.error = earlier_failure(job, self._failures)
            return
        self._transact(connection, jobs)

    def _transact(self, connection: sqlite3.Connection, jobs: list[AnyJob]) -> None:
        sync = "FULL" if any(job.durable for job in jobs) else "NORMAL"
        if sync != self._sync:
            connection.execute(f"PRAGMA synchronous={sync}")
            self._sync = sync
        for savepoints in (False, True):  # with a savepoint each only if one of them fails
            failures = self._failures.copy()
            self._persist(lambda: connection.execute("BEGIN IMMEDIATE"))
            try:
                if self._files is not None:
                    self._files.check_before_write()
                if self._run(connection, jobs, failures, savepoints):
                    connection.execute("COMMIT")
                    self._failures = failures
                    return
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        # each by itself only if SQLite took all of them back because of one, as it does when the disk is full
        for job in jobs:
            self._transact(connection, [job])

    def _persist(self, step: Callable[[], T]) -> T:
        """Do `step`, again and again while another process is in the way."""
        started, pause = time.monotonic(), 0.0005
        while True:
            try:
                return step()
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - started
                if not _is_busy(error) or waited > LOCK_TIMEOUT:
                    raise
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 1.5, 0.02)

    def _run(
        self, connection: sqlite3.Connection, jobs: list[AnyJob], failures: dict[Hashable, BaseException], safe: bool
    ) -> bool:
        """Do the works of a batch. False if one failed and there was no savepoint to go back to."""
        for job in jobs:
            job.error = earlier_failure(job, failures)
            if job.work is None or job.error is not None or job.lane in failures:
                continue
            if safe:
                connection.execute("SAVEPOINT job")
            try:
                job.result = job.work(connection)
            except Exception as error:
                if len(jobs) > 1 and not (safe and connection.in_transaction):
                    return False
                if safe:
                    connection.execute("ROLLBACK TO job")
                else:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    connection.execute("BEGIN")
                job.error = self._translated(error)
                if job.is_missed:
                    failures[job.lane] = job.error
            if safe:
                connection.execute("RELEASE job")
        return True

    def _fail(self, jobs: list[AnyJob], error: BaseException) -> None:
        told = {job.lane for job in jobs if job.future is not None}
        for job in jobs:
            job.error = self._translated(error)
            if job.is_missed and told.isdisjoint((job.lane, ALL_LANES)):
                self._failures.setdefault(job.lane, job.error)

    # -- the readers' threads ----------------------------------------------------------------------

    def _read_all(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._reads.get()) is not None:
            try:
                connection = connection or self._open_reader()
                job.result = self._persist(lambda job=job, connection=connection: self._read(connection, job.work))
            except BaseException as error:
                job.error = self._translated(error)
            with self._lock:
                self._reading -= 1
            reply((job,))
            del job
        if connection is not None:
            connection.close()

    def _read(self, connection: sqlite3.Connection, work: Work[T] | None) -> T:
        assert work is not None
        if self._files is not None:
            self._files.check()
        connection.execute("BEGIN")
        try:
            return work(connection)
        finally:
            connection.execute("ROLLBACK")

    # -- connections -------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self.path != ":memory:" and not Path(self.path).parent.is_dir():
            raise StorageError(f"There is no directory for {self.name}. Make `{Path(self.path).parent}` first.")
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._persist(lambda: connection.execute("PRAGMA journal_mode=WAL").fetchall())
            connection.execute(f"PRAGMA synchronous={self._sync}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_reader(self, timeout: float = 5) -> sqlite3.Connection:
        if self._files is not None:  # opening it would make a file that is not there
            self._files.check()
        connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only=ON")
        return connection

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, UnicodeEncodeError):
            return cannot_hold(self.name, error)
        if not isinstance(error, sqlite3.Error) or isinstance(error, FlowloomError):
            return error
        translated = StorageError(f"{capitalized(self.name)} cannot be used: {error}. {_remedy(error)}")
        translated.__cause__ = error
        return translated


class _Files:
    """The files that a database was opened with: what is written to a file that has lost its name is lost."""

    __slots__ = ("_due", "_file", "_log", "_log_path", "_name", "_path")

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._log_path = os.path.realpath(path) + "-wal"
        self._name = name
        self._file: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None  # there from the first transaction on, until no process has it open
        self._due = 0.0  # when to see next which file the log is

    def check(self) -> None:
        """Raise `StorageError` if the path does not lead to the file any more; the first look takes note of it."""
        self._file = self._same(self._path, self._file)

    def check_before_write(self) -> None:
        """The same, also of the file of what was written lately; within a transaction.

        Whether that is there is seen each time, which one it is only now and then: a file system that keeps exact times
        has to write one down for each write that follows upon a look at them, which costs half of what the write does.
        """
        self.check()
        if time.monotonic() > self._due or not os.access(self._log_path, os.F_OK):
            self._log = self._same(self._log_path, self._log)
            self._due = time.monotonic() + LOG_LOOKS

    def _same(self, path: str, known: tuple[int, int] | None) -> tuple[int, int] | None:
        try:
            found = os.stat(path)
        except OSError as error:
            if known is None:  # not every file system lets SQLite keep a log of writes
                return None
            what = "was deleted" if isinstance(error, FileNotFoundError) else f"cannot be reached ({error.strerror})"
        else:
            place = (found.st_dev, found.st_ino)
            if known is None or place == known:
                return place
            what = "was replaced by another file"
        which = capitalized(self._name) if path == self._path else f"`{path}`, a part of {self._name},"
        raise StorageError(
            f"{which} {what} while it was open, and what was stored last may be lost. Put the file back, or make a new "
            f"service."
        )


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (_BUSY, _LOCKED)


def _remedy(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (_BUSY, _LOCKED):
        return f"Another program has locked it for more than {LOCK_TIMEOUT:g} seconds: end it, or use another file."
    return _REMEDIES.get(code, "Look whether the file is whole and this process may write it.")


_REMEDIES = {
    8: "This process may not write the file or its directory: change its permissions, or use another file.",
    10: "The disk failed: look at its state and at the space left.",
    11: "The file is damaged: restore it from a backup, or recover it with `sqlite3 FILE .recover`.",
    13: "The disk is full: make room.",
    14: "The file could not be opened: look at its path and permissions.",
    26: "The file is something else: use another path.",
}


_CORES: weakref.WeakSet[_Core] = weakref.WeakSet()


@in_forked_child
def _forget_in_child() -> None:
    """A forked process has none of the threads, and locks that one of them may have held for good."""
    for core in _CORES:
        core.forget()


@atexit.register
def _finish_all() -> None:
    """What was asked for is written before the program ends, even if the database was not closed."""
    cores: Sequence[_Core] = list(_CORES)
    for core in cores:
        core.stop()
    for core in cores:
        core.join()
