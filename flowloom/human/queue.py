"""The requests that wait for a person, for those who ask and those who answer, on any thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

from google.genai import types

from flowloom.errors import AnswerError, ModelUnavailableError, RequestNotFoundError, RequestOverError
from flowloom.events import clock
from flowloom.events.response import LlmResponse
from flowloom.human.request import RequestState, WaitingRequest

Outcome = LlmResponse | Exception
Callback = Callable[[WaitingRequest], object]

_MAX_OVER = 1000
"""How many requests are remembered by their ids after they are over."""
_WHY: dict[RequestState, str] = {
    "answered": "has been answered already",
    "cancelled": "was withdrawn: the run that asked has ended",
    "timed out": "has timed out",
}
_log = logging.getLogger("flowloom.human")


@dataclass(eq=False)
class _Entry:
    """A request, and where its answer is waited for: pieces of it, and at last the outcome."""

    waiting: WaitingRequest
    loop: asyncio.AbstractEventLoop
    timeout: float | None
    deadline: float | None
    answers: list[list[types.Part] | Outcome] = field(default_factory=list[list[types.Part] | Outcome])
    """What has come and was not given yet; only the loop that waits touches it, and `more`."""
    more: asyncio.Future[None] | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def overdue(self) -> bool:
        return self.deadline is not None and clock.monotonic() >= self.deadline


@dataclass(eq=False)
class _Listener:
    came: Callback | None
    ended: Callback | None


class RequestQueue:
    """Requests in the order in which they came. Whoever takes one out settles it; nobody else can then."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}
        self._over: dict[str, RequestState] = {}
        self._listeners: list[_Listener] = []

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # the person who answers cannot be copied

    # -- asking ----------------------------------------------------------------------------------------

    async def answers(
        self, waiting: WaitingRequest, timeout: float | None
    ) -> AsyncGenerator[list[types.Part] | Outcome, None]:
        """Put a request into the queue, and wait until it is settled: what is said of the answer before, as parts, and
        last the outcome. Whatever ends the wait takes the request out again."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else clock.monotonic() + timeout
        entry = _Entry(waiting, loop, timeout, deadline)
        with self._lock:
            self._entries[waiting.id] = entry
            listeners = list(self._listeners)
        try:
            _tell([each.came for each in listeners], waiting)
            self._watch(entry)
            while True:
                if not entry.answers:
                    entry.more = loop.create_future()
                    await entry.more
                answer = entry.answers.pop(0)
                yield answer
                if not isinstance(answer, list):
                    return
        finally:
            if entry.timer is not None:
                entry.timer.cancel()
            self._end(waiting.id, "cancelled")

    def _watch(self, entry: _Entry) -> None:
        """End a request that is overdue; look again when one may be that is not. A clock of a test may stand still."""
        if entry.deadline is None:
            return
        if entry.overdue:
            self._time_out(entry)
        else:
            delay = max(entry.deadline - clock.monotonic(), 0.001)
            entry.timer = entry.loop.call_later(delay, self._watch, entry)

    def _time_out(self, entry: _Entry) -> None:
        if self._end(entry.waiting.id, "timed out") is not None:
            model = entry.waiting.model
            _deliver(
                entry,
                ModelUnavailableError(
                    f"The model `{model}` did not answer in time: no answer to request `{entry.waiting.id}` within "
                    f"{entry.timeout:g} seconds.",
                    model=model,
                    code="TIMEOUT",
                    retryable=True,
                ),
            )

    # -- answering -------------------------------------------------------------------------------------

    def pending(self) -> list[WaitingRequest]:
        """The requests that wait, the oldest first."""
        self._sweep()
        with self._lock:
            return [entry.waiting for entry in self._entries.values()]

    def find(self, request_id: str) -> WaitingRequest:
        """The request of that id. Raises `RequestNotFoundError` or `RequestOverError` if none waits."""
        self._sweep()
        with self._lock:
            entry = self._entries.get(request_id)
        if entry is None:
            raise self._missing(request_id)
        return entry.waiting

    def say(self, request_id: str, parts: Sequence[types.Part]) -> None:
        """Give a request pieces of its answer; it goes on waiting. Raises as `find` does."""
        self._sweep()
        with self._lock:
            entry = self._entries.get(request_id)
            if entry is not None:
                entry.waiting.said += parts
        if entry is None or not _deliver(entry, list(parts)):
            self._end(request_id, "cancelled")
            raise self._missing(request_id)

    def settle(self, request_id: str, outcome: Outcome) -> None:
        """Give a request its answer. Raises as `find` does."""
        entry = self._end(request_id, "answered")
        if entry is None:
            raise self._missing(request_id)
        if not _deliver(entry, outcome):
            with self._lock:
                self._note(entry.waiting, "cancelled")
            raise self._missing(request_id)

    def _missing(self, request_id: str) -> AnswerError:
        with self._lock:
            state = self._over.get(request_id)
        if state is None:
            return RequestNotFoundError(f"No request `{request_id}` has come. See `pending()`.", request_id=request_id)
        return RequestOverError(f"Request `{request_id}` {_WHY[state]}.", request_id=request_id, state=state)

    def _sweep(self) -> None:
        with self._lock:
            overdue = [entry for entry in self._entries.values() if entry.overdue]
        for entry in overdue:
            self._time_out(entry)

    def _end(self, request_id: str, state: RequestState) -> _Entry | None:
        """Take a request out; None if somebody else has done so."""
        with self._lock:
            entry = self._entries.pop(request_id, None)
            listeners = list(self._listeners)
            if entry is not None:
                self._note(entry.waiting, state)
        if entry is not None:
            _tell([each.ended for each in listeners], entry.waiting)
        return entry

    def _note(self, waiting: WaitingRequest, state: RequestState) -> None:
        """Remember how a request ended; the caller holds the lock."""
        waiting.state = self._over[waiting.id] = state
        if len(self._over) > _MAX_OVER:
            del self._over[next(iter(self._over))]

    # -- being told ------------------------------------------------------------------------------------

    def subscribe(self, came: Callback | None, ended: Callback | None) -> Callable[[], None]:
        """Call `came` for each request that waits now or comes later, and `ended` when it is over."""
        listener = _Listener(came, ended)
        with self._lock:
            self._listeners.append(listener)
            waiting = [entry.waiting for entry in self._entries.values()]
        for each in waiting:
            _tell([came], each)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    async def arrivals(self) -> AsyncGenerator[WaitingRequest, None]:
        """Each request once, as long as it waits."""
        loop = asyncio.get_running_loop()
        fresh: asyncio.Queue[WaitingRequest] = asyncio.Queue()

        def came(waiting: WaitingRequest) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(fresh.put_nowait, waiting)

        stop = self.subscribe(came, None)
        try:
            while True:
                waiting = await fresh.get()
                if waiting.state == "waiting":
                    yield waiting
        finally:
            stop()


def _deliver(entry: _Entry, answer: list[types.Part] | Outcome) -> bool:
    """Hand an answer, or pieces of one, over to the loop that waits for it; whether there is one still."""

    def take() -> None:
        entry.answers.append(answer)
        if entry.more is not None and not entry.more.done():
            entry.more.set_result(None)

    try:
        entry.loop.call_soon_threadsafe(take)
    except RuntimeError:  # it was closed without an end to what ran on it
        return False
    return True


def _tell(callbacks: list[Callback | None], waiting: WaitingRequest) -> None:
    for callback in callbacks:
        try:
            if callback is not None:
                callback(waiting)
        except Exception:
            _log.exception("A callback for waiting requests failed on %r.", waiting)
