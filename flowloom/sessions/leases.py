"""Leases: the right to run on a session, which one run has at a time, first come, first served."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, Self

from flowloom.errors import RunLostError, SessionBusyError
from flowloom.objects.forks import in_forked_child

_log = logging.getLogger("flowloom.sessions")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
Key = tuple[str, str, str]
"""App, user and session."""


def uptime() -> float:
    """Seconds on a clock that goes on while the process is stopped and, where that can be had, the machine asleep."""
    return time.clock_gettime(_CLOCK)


class Fence:
    """Whether a run still has its session: what its lease is worth to those who write, and to those who start tools.

    Sessions that are read under a lease have its fence. A store that can lose leases sets it, and refuses to append
    for a session behind a fence that is `lost`.
    """

    __slots__ = (
        "abandoned",
        "along",
        "confirm",
        "held",
        "lost",
        "over",
        "owner",
        "refused",
        "renewed",
        "seconds",
        "session_id",
    )

    def __init__(self, session_id: str, owner: str, seconds: float, renewed: float) -> None:
        self.session_id = session_id
        self.owner = owner
        """The id of the lease in the store."""
        self.seconds = seconds
        self.renewed = renewed
        """When the store was last known to have the lease for `seconds` more, by `uptime`."""
        self.held: tuple[int, int] | None = None
        """Which log is held, at which epoch: whoever takes it over raises that. None until there is a session."""
        self.lost = False
        """Whether another run has taken the session over."""
        self.refused = False
        """Whether an event was not stored for that whose storing was not awaited."""
        self.over = False
        """Whether the lease was given back: what is appended then is no run's."""
        self.confirm: Callable[[], Awaitable[None]] | None = None
        """Renews the lease in the store. Raises `RunLostError`."""
        self.abandoned: bool | None = None
        """Whether the run is left as it is, because the store has failed it, for another one to go on with: nothing
        more is stored then. None for a run that says in its log that it has failed."""
        self.along: Callable[[Any], object] | None = None
        """What a SQL store does on the connection on which it appends a message of the user's; it may be done again."""

    async def check(self) -> None:
        """Make sure that the session is still the run's; asks the store only if it was not renewed for half its time.

        Raises `RunLostError`.
        """
        if self.over:
            return
        if self.lost:
            raise self.error()
        if self.confirm is not None and uptime() - self.renewed > self.seconds / 2:
            await self.confirm()

    def abandon(self) -> None:
        """The store has failed the run: leave it to whoever goes on with it, if that is how the run is held."""
        if self.abandoned is not None and not self.lost:
            self.lost = self.abandoned = True

    def lose(self) -> None:
        """Note, and log once, that another run has taken the session over."""
        if not self.lost:
            self.lost = True
            _log.warning(
                "A run has lost session `%s`: another one has taken it over, because this one was not heard of for %g "
                "seconds.",
                self.session_id,
                self.seconds,
            )

    def error(self) -> RunLostError:
        """What a run is told that has lost its session; it has from now on."""
        self.lose()
        return RunLostError(
            f"Another run has taken over session `{self.session_id}`, because this one was not heard of for "
            f"{self.seconds:g} seconds: its process was stopped, or its event loop blocked. This run ends, and stores "
            f"nothing more; what the other one stores counts.",
            session_id=self.session_id,
            retry_after=self.seconds,
        )


class SessionLease:
    """The right to run on the session `session_id`, until `release`, or until the object is gone.

    `give_back` is called then; `fence` is what the store knows the run by, None for stores that need none. An
    asynchronous context manager.
    """

    __slots__ = ("__weakref__", "_give_back", "fence", "session_id")

    def __init__(self, session_id: str, give_back: Callable[[], None], fence: Fence | None = None) -> None:
        self.session_id = session_id
        self.fence = fence
        """Tells whether another run has taken the session over; None in a store that cannot lose leases."""
        self._give_back: Callable[[], None] | None = give_back

    async def release(self) -> None:
        """Let the next run have the session. Releasing twice is fine."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __del__(self) -> None:
        if self._give_back is not None:  # a run that was dropped must not keep others waiting
            self._give_back()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()


class Place:
    """A place in the line of a session; the first has the session."""

    __slots__ = ("behind", "expires", "fence", "future", "home", "loop")

    def __init__(self, expires: float) -> None:
        self.home = threading.get_ident()
        """The thread whose event loop the run is in."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[None] | None = None
        self.behind: deque[Place] | None = None
        """Those that wait, if this is the first."""
        self.fence: Fence | None = None
        """Of the lease that the first one has."""
        self.expires = expires
        """On the monotonic clock: when others may take over, if they do not hear of this process any more."""

    def wake(self) -> bool:
        """Tell the owner that its turn has come, from any thread. False if it cannot hear it any more."""
        if self.loop is None:
            return True
        try:
            self.loop.call_soon_threadsafe(self._awake)
        except RuntimeError:  # its loop was closed
            return False
        return True

    def _awake(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


standing_still: ContextVar[tuple[int, ...]] = ContextVar("flowloom_standing_still", default=())
"""The threads whose event loops stand still until the work at hand is done: synchronous calls were made in them."""


_process = [os.getpid()]  # kept up to date, because to ask the system costs as much as all else in `enter`


@in_forked_child
def _note_process() -> None:
    _process[0] = os.getpid()


class LeaseQueue:
    """Who has which session in this process, and who waits for it. Serves several loops and threads."""

    __slots__ = ("_first", "_lock", "_process")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a lease may be given back by garbage collection
        self._first: dict[Key, Place] = {}
        self._process = _process[0]

    async def enter(self, key: Key, *, wait: bool, seconds: float) -> Place:
        """Take a place in the line of a session, and return when it is the first.

        Raises `SessionBusyError` if it is not the first and not to wait.
        """
        if self._process != _process[0]:  # forked: the runs that had sessions are the parent's
            self.__init__()
        place = Place(time.monotonic() + seconds)
        if self._first.setdefault(key, place) is place:  # one step, so that it needs no lock
            return place
        with self._lock:
            first = self._first.setdefault(key, place)
            if first is place:
                return place
            if not wait:
                raise busy(key[2], first.expires - time.monotonic())
            still = standing_still.get()
            if still and any(each.home in still for each in (first, *(first.behind or ()))):
                raise SessionBusyError(
                    f"A run of the event loop in which this synchronous call was made works on session `{key[2]}`, or "
                    f"waits for it: neither could go on. `await` that run first, or use the asynchronous form.",
                    session_id=key[2],
                    retry_after=0.0,
                )
            place.loop = asyncio.get_running_loop()
            place.future = place.loop.create_future()
            if first.behind is None:
                first.behind = deque()
            first.behind.append(place)
        try:
            await place.future
        except BaseException:
            self.leave(key, place)
            raise
        place.expires = time.monotonic() + seconds
        return place

    def fence_of(self, key: Key) -> Fence | None:
        """The fence of whoever has a session in this process."""
        first = self._first.get(key)
        return None if first is None else first.fence

    def leave(self, key: Key, place: Place) -> None:
        """Give up a place. Who has left already may leave again."""
        with self._lock:
            first = self._first.get(key)
            if first is None:
                return
            behind = first.behind
            if first is not place:
                if behind is not None and place in behind:
                    behind.remove(place)
                return
            while behind:
                heir = behind.popleft()
                if heir.wake():
                    heir.behind = behind
                    self._first[key] = heir
                    return
            del self._first[key]

    async def acquire(self, key: Key, *, wait: bool, seconds: float) -> SessionLease:
        """A lease that holds within this process."""
        place = await self.enter(key, wait=wait, seconds=seconds)
        return SessionLease(key[2], partial(self.leave, key, place))


def busy(session_id: str, seconds: float) -> SessionBusyError:
    """The error for a run that is not to wait; `seconds` until the other's lease expires."""
    return SessionBusyError(
        f"Another run works on session `{session_id}`. Wait for it, try again later, or run with "
        f'`concurrency="queue"`.',
        session_id=session_id,
        retry_after=max(seconds, 0.0),
    )
