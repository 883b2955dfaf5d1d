"""`ServedRun`: a run, what it has said so far, and those who read it (server spec §5)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from flowloom.events import Event
from flowloom.server.failures import error_data, error_id_of, refusal_of
from flowloom.server.frames import Frame, Place, error_frame, frames_of, is_said_by_run, is_twofold
from flowloom.server.local_run import RunSource
from flowloom.server.places import Places
from flowloom.server.problems import ProblemError

KEPT_FRAMES = 1000
KEPT_BYTES = 4 * 1024 * 1024
"""What is kept of a run, in frames and in bytes, for those who come back."""
KEPT_BYTES_OF_ALL = 16 * 1024 * 1024
"""What is kept of all runs together: each has an equal part of it."""
MOST_WAITING = 64
"""How many frames wait for a reader before the run does."""
ALL_AT_ONCE = MOST_WAITING // 2
"""The patience of one who tells all frames together."""
Key = tuple[str, str, str]
"""App, user and session."""


def answered_calls(message: Any) -> set[str | None]:
    """The ids of the calls that a message answers."""
    answers = (part.function_response for part in message.parts or ()) if message is not None else ()
    return {answer.id for answer in answers if answer is not None}


class FrameReader(Protocol):
    """One who reads frames; it is to `leave` when it reads no more."""

    @property
    def at_end(self) -> bool:
        """Whether nothing follows."""
        ...

    def take(self) -> Frame | None:
        """The next frame, if it is there."""
        ...

    async def news(self) -> None:
        """Wait until there is something new: a frame, the end, or what `tell` says."""
        ...

    def tell(self) -> object:
        """End the wait."""
        ...

    def leave(self) -> None:
        """Read no more."""
        ...


class Signal:
    """What one task waits for, time and again."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait until the next `give`."""
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    @property
    def awaited(self) -> bool:
        """Whether a task waits."""
        return self._waiting is not None

    def give(self) -> bool:
        """End the wait, if there is one; whether there was."""
        waits = self._waiting
        if waits is None or waits.done():
            return False
        waits.set_result(None)
        return True


class Once:
    """What happens once, and what any number of tasks wait for. An `asyncio.Event` takes ten times its memory, and for
    the end of most runs no task waits."""

    __slots__ = ("_event", "_happened")

    def __init__(self) -> None:
        self._happened = False
        self._event: asyncio.Event | None = None

    async def wait(self) -> None:
        """Return when it has happened."""
        if not self._happened:
            self._event = self._event or asyncio.Event()
            await self._event.wait()

    def set(self) -> None:
        """It happens now, if it has not before."""
        self._happened = True
        if self._event is not None:
            self._event.set()
            self._event = None


class StoredFrames:
    """The `FrameReader` of a run that is over."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = deque(frames)

    @property
    def at_end(self) -> bool:
        return not self._frames

    def take(self) -> Frame | None:
        return self._frames.popleft() if self._frames else None

    async def news(self) -> None:
        return

    def tell(self) -> None:
        return

    def leave(self) -> None:
        return


class Reader:
    """The `FrameReader` of a run that goes on."""

    def __init__(self, run: ServedRun, at: int, patience: int) -> None:
        self._run = run
        self.at = at
        """Which frame is next, of all that the run has had."""
        self.waits_for = at + patience
        """It is told when the run has had more frames than so many."""
        self._patience = patience
        self._news = Signal()

    def take(self) -> Frame | None:
        """The next frame, if it is there."""
        run = self._run
        if self.at >= run.first + len(run.frames):
            return None
        frame = run.frames[self.at - run.first]
        self.at += 1
        run.was_read()
        return frame

    @property
    def at_end(self) -> bool:
        """Whether nothing follows."""
        return self._run.over and self.at >= self._run.first + len(self._run.frames)

    async def news(self) -> None:
        """Wait until there is something new: as many frames as it is patient, the end, or what `tell` says."""
        self.waits_for = self.at + self._patience
        await self._news.wait()

    def tell(self) -> bool:
        """End the wait, if there is one; whether there was."""
        return self._news.give()

    def leave(self) -> None:
        """Read no more."""
        self._run.left(self)


class ServedRun:
    """A run that `source` tells of, in a task of its own from `start` on.

    Its frames are kept until all readers have them, and the last ones for those who come back. When the last reader
    has gone, the run is cancelled `grace` seconds later. `answered` are the calls that people were asked about, and
    that its message may answer. `places`, `split`: see `frames_of`; `dev`: whether the texts of unexpected errors are
    told; `share` gives how many bytes of frames it may keep, `on_over` is called at its end.
    """

    def __init__(
        self,
        source: RunSource,
        *,
        answered: Collection[str | None],
        places: Places,
        grace: float,
        split: bool,
        dev: bool,
        share: Callable[[], int],
        on_over: Callable[[ServedRun], None],
    ) -> None:
        self._source = source
        self._answered = answered
        self._places = places
        self._grace, self._split, self._dev = grace, split, dev
        self._share, self._on_over = share, on_over
        self.invocation_id = ""
        """Empty until it has begun."""
        self.frames: deque[Frame] = deque()
        """Those that are kept."""
        self.first = 0
        """Which the first of these is, of all that it has had."""
        self._bytes = 0
        self._is_full = False
        """Whether it had more frames than are to be kept, when they were counted last."""
        self._place = Place(0, 0)
        self._halves = 0
        """How many frames the last complete event has behind its first."""
        self._readers: set[Reader] = set()
        self._told = False
        """Whether a reader waited for what has come."""
        self._room = Signal()
        """Waited for until the slowest reader has read."""
        self._lost: asyncio.TimerHandle | None = None
        """Cancels it when no reader has come back."""
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._why: ProblemError | None = None
        """Why the server has cancelled it, for the last frame."""
        self.over = False
        self.error: BaseException | None = None
        """What ended it, if it failed."""
        self.begun = Once()
        """Set when the run has its session, and the message is stored; or when it is over."""
        self.ended = Once()

    # -- what is done with it --------------------------------------------------------------------------

    def start(self) -> None:
        """Let it run."""
        self._task = asyncio.create_task(self._work(), name="flowloom served run")
        self._task.add_done_callback(self._end)

    @property
    def started(self) -> bool:
        """Whether its turn has come."""
        return self._task is not None

    def cancel(self, why: ProblemError | None = None) -> None:
        """Stop it. Its last events are still read and stored; `why` is told by the last frame."""
        self._why = self._why or why
        if self._task is None:
            self._finish(None)
        elif not self._cancelled:
            self._cancelled = True
            self._source.cancel()
            self._room.give()

    def read(self, at: int | None = None, *, patience: int = 0) -> Reader:
        """A reader of its frames, from the first that is kept, or from the one of this number.

        With `patience`, it is told when more than so many frames have come, and not of each.
        """
        reader = Reader(self, self.first if at is None else at, patience)
        self._readers.add(reader)
        if self._lost is not None:
            self._lost.cancel()
            self._lost = None
        return reader

    def after(self, place: Place) -> int | None:
        """The number of the frame that follows `place`; None if that is not kept any more."""
        for number, frame in enumerate(self.frames, self.first):
            if frame.place > place:
                return number if number > self.first or self.first == 0 else None
        return self.first + len(self.frames)

    def left(self, reader: Reader) -> None:
        """A reader has gone."""
        self._readers.discard(reader)
        self._room.give()
        if self._readers or self.over:
            return
        if self._grace > 0:
            self._lost = asyncio.get_running_loop().call_later(self._grace, self.cancel)
        else:
            self.cancel()

    def was_read(self) -> None:
        """A reader has taken a frame."""
        if self._is_full:
            self._forget()
        if self._room.awaited and not self._is_far_ahead():
            self._room.give()

    def refusal(self) -> ProblemError | None:
        """What is answered in the place of the run, if it could not begin, or the server has ended it."""
        begun = self.error is None or (self.invocation_id and not isinstance(self.error, ProblemError))
        return None if begun or self.error is None else refusal_of(self.error)

    # -- the run ----------------------------------------------------------------------------------------

    async def _work(self) -> None:
        events = self._source.events()
        try:
            async for event in events:
                self._take(event)
                if self._is_far_ahead():
                    await self._room.wait()
                elif self._told:
                    self._told = False
                    await asyncio.sleep(0)  # those who waited have the event before the run goes on
        finally:
            await events.aclose()
        self._finish(None)  # and not a turn of the loop later, where nothing has failed

    def _take(self, event: Event) -> None:
        self.invocation_id = event.invocation_id
        stored, since = self._source.place
        if not event.partial:
            self._halves = int(is_twofold(event))
        self._place = Place(stored, since + self._halves if event.partial else 0)
        if is_said_by_run(event, self._answered):
            for frame in frames_of(event, self._place, self._places, split=self._split):
                self._add(frame)
        self.begun.set()

    def _add(self, frame: Frame) -> None:
        self._place = frame.place
        self.frames.append(frame)
        self._bytes += len(frame.chunk)
        self._forget()
        had = self.first + len(self.frames)
        for reader in self._readers:
            if had > reader.waits_for:
                self._told = reader.tell() or self._told

    def _forget(self) -> None:
        """Keep no more frames than are to be kept, and those that a reader has not read."""
        room = self._share()
        self._is_full = len(self.frames) > KEPT_FRAMES or self._bytes > room
        if not self._is_full:
            return
        slowest = min((reader.at for reader in self._readers), default=self.first + len(self.frames) - 1)
        while self.first < slowest and (len(self.frames) > KEPT_FRAMES or self._bytes > room):
            self._bytes -= len(self.frames.popleft().chunk)
            self.first += 1

    def _is_far_ahead(self) -> bool:
        if self._cancelled or len(self.frames) < MOST_WAITING:
            return False
        far = self.first + len(self.frames) - MOST_WAITING
        return any(reader.at <= far for reader in self._readers)

    # -- its end ------------------------------------------------------------------------------------------

    def _end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and (self.invocation_id or refusal_of(error) is None):
            error_id_of(error)  # it is in the log
        self._finish(error)

    def _end_place(self) -> Place:
        """Where the frame stands that says why the run has ended."""
        return self._place.next

    def _finish(self, error: BaseException | None) -> None:
        if self.over:
            return
        if self._lost is not None:
            self._lost.cancel()
        self.error = error or self._why
        if self.error is not None:
            data = error_data(self.error, dev=self._dev)
            self._add(error_frame(self.invocation_id or "-", self._end_place(), data))
        self.over = True
        for reader in self._readers:
            reader.tell()
        self.begun.set()
        self.ended.set()
        self._on_over(self)
