"""Leases: the right to run on a session, which one run has at a time, first come, first served."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from flowloom.errors import SessionBusyError

Key = tuple[str, str, str]
"""App, user and session."""


class SessionLease:
    """The right to run on a session, until `release`, or until the object is gone.

    An asynchronous context manager.
    """

    __slots__ = ("__weakref__", "_give_back", "session_id")

    def __init__(self, session_id: str, give_back: Callable[[], None]) -> None:
        self.session_id = session_id
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

    __slots__ = ("behind", "expires", "future", "loop")

    def __init__(self, expires: float) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[None] | None = None
        self.behind: deque[Place] | None = None
        """Those that wait, if this is the first."""
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


class LeaseQueue:
    """Who has which session in this process, and who waits for it. Serves several loops and threads."""

    __slots__ = ("_first", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a lease may be given back by garbage collection
        self._first: dict[Key, Place] = {}

    async def enter(self, key: Key, *, wait: bool, seconds: float) -> Place:
        """Take a place in the line of a session, and return when it is the first.

        Raises `SessionBusyError` if it is not the first and not to wait.
        """
        place = Place(time.monotonic() + seconds)
        if self._first.setdefault(key, place) is place:  # one step, so that it needs no lock
            return place
        with self._lock:
            first = self._first.setdefault(key, place)
            if first is place:
                return place
            if not wait:
                raise busy(key[2], first.expires - time.monotonic())
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
