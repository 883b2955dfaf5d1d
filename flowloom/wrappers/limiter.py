"""`Limiter`: lets calls in, in the order in which they came, as many at once and in a minute as are allowed."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from math import inf
from typing import Any, Self

from flowloom.events import clock

WINDOW = 60.0
"""Seconds that a call counts for the limits per minute."""
_NO_TIME = 1e-6  # what is left of a pause because of rounding


class TooLongError(Exception):
    """A call would have to wait longer than it may. Attribute: `seconds` (how long it has to wait, as far as known)."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:.1f} s")
        self.seconds = seconds


class Admission:
    """A call that was let in."""

    __slots__ = ("counted", "time", "tokens")

    def __init__(self, time: float, tokens: int) -> None:
        self.time = time
        self.tokens = tokens
        self.counted = True
        """Whether it still counts for the limits per minute."""


class _Waiter:
    __slots__ = ("loop", "tokens", "turn")

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.loop = asyncio.get_running_loop()
        self.turn = _signal()


def _signal() -> Future[None]:
    """What a task waits for, in any event loop. It cannot be cancelled from there."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


class Limiter:
    """Any number of tasks, event loops and threads may share one. A copy of it is itself: copies share the limits.

    `requests` and `tokens` hold for any 60 seconds. Who came first goes first, even if a later call needs less.
    """

    def __init__(
        self, concurrency: int | None, requests: int | None, tokens: int | None, max_wait: float | None
    ) -> None:
        self._concurrency = inf if concurrency is None else concurrency
        self._requests = inf if requests is None else requests
        self._allowed = inf if tokens is None else tokens
        self._max_wait = inf if max_wait is None else max_wait
        self._lock = threading.Lock()
        self._running = 0
        self._recent: deque[Admission] = deque()
        """The calls of the last minute, oldest first; none if there are no limits per minute."""
        self._tokens = 0
        """What they need together."""
        self._queue: deque[_Waiter] = deque()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    async def enter(self, tokens: int) -> Admission:
        """Wait for the turn of a call that needs so many tokens, by estimate. Raises `TooLongError`.

        Every call that was let in has to `leave`.
        """
        with self._lock:
            if not self._queue and not self._pause_for(tokens):
                return self._admit(tokens)
            waiter = _Waiter(tokens)
            self._queue.append(waiter)
        try:
            await self._wait(waiter)
        except BaseException:
            with self._lock:
                if waiter in self._queue:
                    self._queue.remove(waiter)
                    self._call_next()
            raise
        with self._lock:
            self._queue.popleft()
            admission = self._admit(tokens)
            self._call_next()
            return admission

    def leave(self, admission: Admission, used: int | None) -> None:
        """A call has ended. `used` corrects the tokens that were estimated, None leaves them."""
        with self._lock:
            self._running -= 1
            if used is not None and admission.counted:
                self._tokens += used - admission.tokens
                admission.tokens = used
            self._call_next()

    async def _wait(self, waiter: _Waiter) -> None:
        """Until `waiter` is the first in the queue, and there is room for it."""
        deadline = clock.monotonic() + self._max_wait
        while True:
            with self._lock:
                self._forget_closed_loops()
                waiter.turn = _signal()
                pause = self._pause_for(waiter.tokens) if self._queue[0] is waiter else inf
                minimum = self._window_pause(waiter.tokens)
            if not pause:
                return
            left = max(deadline - clock.monotonic(), 0.0)
            if left <= _NO_TIME or minimum > left + _NO_TIME:
                raise TooLongError(minimum)
            await _sleep_until(waiter.turn, min(pause, left))

    # -- with the lock held ------------------------------------------------------------------------

    def _pause_for(self, tokens: int) -> float:
        """Seconds until there is room, 0 if there is; infinite when another call must end first."""
        return inf if self._running >= self._concurrency else self._window_pause(tokens)

    def _window_pause(self, tokens: int) -> float:
        """Seconds until the limits per minute allow another call."""
        now = clock.monotonic()
        recent = self._recent
        while recent and recent[0].time + WINDOW - now <= _NO_TIME:
            old = recent.popleft()
            old.counted = False
            self._tokens -= old.tokens
        count, needed, until = len(recent), self._tokens + tokens, now
        for each in recent:
            # a call that needs more than is allowed in all is made when nothing else counts
            if count < self._requests and needed <= self._allowed:
                break
            count, needed, until = count - 1, needed - each.tokens, each.time + WINDOW
        return until - now

    def _admit(self, tokens: int) -> Admission:
        admission = Admission(clock.monotonic(), tokens)
        self._running += 1
        if self._requests < inf or self._allowed < inf:
            self._recent.append(admission)
            self._tokens += tokens
        else:
            admission.counted = False
        return admission

    def _call_next(self) -> None:
        """Let the first in the queue look whether there is room now."""
        self._forget_closed_loops()
        if self._queue and not self._queue[0].turn.done():
            self._queue[0].turn.set_result(None)

    def _forget_closed_loops(self) -> None:
        """Take out those who cannot go on: their event loop was closed before they could leave the queue."""
        while self._queue and self._queue[0].loop.is_closed():
            self._queue.popleft()


async def _sleep_until(turn: Future[None], seconds: float) -> None:
    """Wait so many seconds by the engine's clock, or until `turn` comes."""
    called = asyncio.wrap_future(turn)
    if seconds == inf:
        await called
        return
    sleeper = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((called, sleeper), return_when=asyncio.FIRST_COMPLETED)
    finally:
        called.cancel()
        sleeper.cancel()
        await asyncio.wait((sleeper,))
