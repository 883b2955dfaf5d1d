"""Blocking calls in threads of their own, none of which outlives its run (decisions 12 and 22)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from flowloom.context.ending import all_ended

_log = logging.getLogger("flowloom.tools")
_T = TypeVar("_T")


class Threads:
    """The threads of one run.

    Each blocking call gets a thread with a copy of the caller's context variables; at most `limit` work at once.
    A call that is given up (cancelled, timed out) cannot be stopped: `close` waits for it.
    """

    GRACE_SECONDS = 30.0
    """How long `close` waits for calls that were given up before it reports and leaves them."""
    HURRIED_SECONDS = 0.1
    """How long it still waits when it is cancelled."""

    __slots__ = ("_busy", "_slots")

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._busy: dict[threading.Thread, asyncio.Event] = {}

    async def call(self, name: str, function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
        """Run `function` in a thread named after `name`, and wait for its result."""
        async with self._slots:
            loop = asyncio.get_running_loop()
            context = contextvars.copy_context()
            outcome: list[Any] = []
            done: asyncio.Event | None = None

            def work() -> None:
                try:
                    outcome.append((context.run(function, *args, **kwargs), None))
                except BaseException as error:
                    outcome.append((None, error))
                if done is not None:
                    with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the task that waited
                        loop.call_soon_threadsafe(done.set)

            thread = threading.Thread(target=work, name=f"flowloom:{name}", daemon=True)
            thread.start()
            if not outcome:  # a call that waits for nothing has ended by the time that its thread has started
                done = self._busy[thread] = asyncio.Event()
                if not outcome:  # from here on the thread tells of its end
                    await done.wait()
                del self._busy[thread]
            thread.join()  # it has nothing left to do but to end
            value, error = outcome.pop()
            if isinstance(error, StopIteration):  # cannot be raised into a coroutine
                raise RuntimeError(f"`{name}` raised StopIteration") from error
            if error is None:
                return value
            try:
                raise error
            finally:
                error = None  # the traceback must not hold its own frame

    async def close(self) -> None:
        """Wait for the calls that were given up."""
        if not self._busy:
            return
        waiting = [asyncio.ensure_future(done.wait()) for done in self._busy.values()]
        try:
            await asyncio.wait(waiting, timeout=self.GRACE_SECONDS)
        except asyncio.CancelledError:  # a second cancellation shortens the wait
            await all_ended((asyncio.ensure_future(asyncio.wait(waiting, timeout=self.HURRIED_SECONDS)),))
            raise
        finally:
            for waiter in waiting:
                waiter.cancel()
            for thread, done in list(self._busy.items()):
                if done.is_set():
                    thread.join()
                else:
                    _log.error(
                        "The blocking call in thread %r is still busy after its run ended; it was left.", thread.name
                    )
            self._busy.clear()
