"""`Database`: where SQL stores keep what they keep. A work is a plain function of a connection.

Works run in threads, so that they never block an event loop, and belong to none: a database serves several loops and
threads at once. A work may run more than once (after a conflict, or because a neighbour in its transaction failed),
so that it must not change anything but the database.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from flowloom.errors import InputValidationError, StorageError

T = TypeVar("T")
Dialect = Literal["sqlite", "postgres"]

ALL_LANES: Final = object()
"""The lane of a flush of everything."""


class Cursor(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows a statement changed."""
        ...

    def fetchone(self) -> Any:
        """The next row as a tuple, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...


class Connection(Protocol):
    """What a work is given. Parameters are written `?` in the SQL of every dialect."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """Run one statement, `sql`, with its `parameters`."""
        ...

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run one statement, `sql`, for each of `rows` of parameters."""
        ...


Work = Callable[[Connection], T]


class Database(ABC):
    """A database, opened when it is first used. `name` is what errors call it.

    `lane` orders writes: those of one lane are done in the order in which they were asked for. All writes that wait may
    share one commit; one that fails leaves no trace and does not disturb the others. An error of the library below
    becomes a `StorageError` that says where it happened, or an `InputValidationError` if it is about what was to be
    stored; what a work raises itself comes out as it is.
    """

    dialect: Dialect

    def __init__(self, name: str) -> None:
        self.name = name
        """Which database it is, for error texts. Without a password."""
        self.schemas: set[str] = set()
        """The schemas that are known to be in place."""

    @abstractmethod
    async def read(self, work: Work[T]) -> T:
        """What `work` gives; it sees everything that is committed, as of one moment."""

    def glance(self, work: Work[T]) -> tuple[T] | None:
        """What `work` gives, read at once in the calling thread; None if that would have to wait for anything.

        For a look at few rows, which costs less than it takes to wake a thread.
        """
        return None

    @abstractmethod
    async def write(self, work: Work[T], *, durable: bool = True, lane: Hashable = None) -> T:
        """Run `work` in a transaction; returns when it is committed.

        Unless `durable`, the commit may be lost when the machine (not the process) goes down. Raises the error of a
        `write_buffered` of the same lane that came before and failed.
        """

    @abstractmethod
    def write_buffered(self, work: Work[object], *, durable: bool = True, lane: Hashable = None) -> Job[Any]:
        """Have `work` done within some milliseconds, together with the next write of its lane if that comes first.

        Its error is raised by that write, or by `flush`, unless it need not be `durable`: then it may get lost. See
        `withdraw` for what is returned.
        """

    def withdraw(self, job: Job[Any]) -> bool:
        """Take back a work of `write_buffered`, if it has not begun; whether it was."""
        return False

    @abstractmethod
    async def flush(self, *, lane: Hashable = ALL_LANES) -> None:
        """Return when all writes (of a lane) are committed. Raises the first error of a `write_buffered`."""

    async def notices(self, channel: str) -> AsyncGenerator[str, None]:
        """What is said on a `channel` (a plain name) by `SELECT pg_notify(channel, text)`; an empty text first, as
        soon as it is heard.

        It ends at once where the database has no such thing. Raises `StorageError` if the connection is lost.
        """
        return
        yield ""  # pyright: ignore[reportUnreachable] - makes this an async generator

    @abstractmethod
    async def close(self) -> None:
        """Finish what was asked for and let go of threads and connections. A closed database cannot be used."""


class Job(Generic[T]):
    """A work on its way: what to run, for whom, and how it went."""

    __slots__ = ("durable", "error", "future", "lane", "loop", "result", "work")

    def __init__(self, work: Work[T] | None, durable: bool, lane: Hashable, *, awaited: bool) -> None:
        self.work = work
        self.durable = durable
        hash(lane)  # what cannot be told apart from others is the caller's error, not the writer's
        self.lane = lane
        self.result: Any = None
        self.error: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop() if awaited else None
        self.future: asyncio.Future[Any] | None = self.loop.create_future() if self.loop is not None else None

    @property
    def is_missed(self) -> bool:
        """Whether an error has to be told later: it was not awaited, and what was asked for may not get lost."""
        return self.future is None and self.durable

    async def wait(self) -> T:
        """The result, in the loop that made the job."""
        assert self.future is not None
        return await self.future


def earlier_failure(job: Job[Any], failures: dict[Hashable, BaseException]) -> BaseException | None:
    """The error that `job` has to raise for works before it that were not awaited; it is taken out of `failures`."""
    if job.future is None or not failures:
        return None
    if job.lane is not ALL_LANES:
        return failures.pop(job.lane, None)
    first = next(iter(failures.values()))
    failures.clear()
    return first


def reply(jobs: Sequence[Job[Any]]) -> None:
    """Tell those who wait how their jobs went; from any thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, theirs)
        except RuntimeError:  # the loop was closed: no task waits any more
            pass


def _settle(jobs: Sequence[Job[Any]]) -> None:
    for job in jobs:
        future = job.future
        if future is None or future.done():
            continue
        if job.error is not None:
            future.set_exception(job.error)
        else:
            future.set_result(job.result)


def capitalized(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def cannot_hold(name: str, error: Exception) -> InputValidationError:
    """The error for what a database of this `name` has no place for."""
    why = str(error).partition("\n")[0].rstrip(".")
    if isinstance(error, UnicodeEncodeError):
        why = f"{error.object!r:.80} has half of a surrogate pair"
    told = InputValidationError(f"{capitalized(name)} cannot hold what it was given: {why}. Take another name or key.")
    told.__cause__ = error
    return told


def check_usable(name: str, closed: bool, process: int) -> None:
    """Raise `StorageError` for a database that was closed, or that was made in another process."""
    if closed:
        raise StorageError(f"{capitalized(name)} was closed. Make a new service to use it again.")
    if process != os.getpid():
        raise StorageError(f"{capitalized(name)} was opened before this process was forked. Make a service in each.")
