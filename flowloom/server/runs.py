"""`Runs`: all runs of a server; `LocalRuns`: those of this process, one at a time for each session (server spec §9)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple

from flowloom.errors import InputValidationError
from flowloom.runner.runner import RunArguments, Runner
from flowloom.server.failures import refusal_of, session_busy, shutting_down
from flowloom.server.frames import Place
from flowloom.server.local_run import LocalRun
from flowloom.server.places import Places
from flowloom.server.problems import ProblemError, session_not_found
from flowloom.server.served_run import KEPT_BYTES, KEPT_BYTES_OF_ALL, FrameReader, Key, ServedRun, answered_calls
from flowloom.server.settings import ServerSettings
from flowloom.sessions import Session

MOST_QUEUED = 8
"""How many runs wait for that of their session."""
ENDING_SECONDS = 15.0
"""How long runs that were cancelled may take to end, and their last frames to be sent."""


class Listed(NamedTuple):
    """A run of a session that goes on, or waits for its turn, or for a person, as `GET .../runs` shows it."""

    invocation_id: str | None
    """None if it has not begun, and is not known by an id before."""
    status: Literal["running", "waiting", "paused"]
    waits_for: str | None = None
    """What one that waits for its turn waits for: `session`, `worker`, `time`, or a limit of the fleet."""
    position: int | None = None
    """How many come before it there."""


class Runs(ABC):
    """The runs of a server by session, and the streams that are open."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._streams = 0
        """How many answers are being streamed."""
        self._no_stream = asyncio.Event()
        self.stopping = False
        """Whether no more runs are taken."""

    @abstractmethod
    async def check(self, app_name: str) -> None:
        """Raise `ProblemError` for an app that cannot be run here."""

    @abstractmethod
    async def begin(
        self, key: Key, arguments: RunArguments, *, places: Places, grace: float | None = None, split: bool = True
    ) -> ServedRun:
        """A new run on a session, by agents at these `places`: it begins now, or when those before it are over.

        Raises `ProblemError`: 409 if the session has a run, or too many wait; 503 while the server stops.
        """

    @abstractmethod
    def of(self, key: Key) -> list[ServedRun]:
        """The runs of a session that are served here: the one that goes on, and those that wait."""

    @abstractmethod
    async def sessions_of(self, app_name: str, user_id: str) -> set[str]:
        """The sessions of a user that have runs which go on, or wait for their turn."""

    @abstractmethod
    async def listed(self, key: Key) -> list[Listed]:
        """The runs of a session that go on, and wait for their turn, in order."""

    @abstractmethod
    async def follow(
        self, session: Session, invocation_id: str, place: Place | None, places: Places
    ) -> FrameReader | None:
        """Who reads a run that goes on, behind `place`; None for one that does not.

        Raises `ProblemError` (410) if what follows that place is not kept.
        """

    @abstractmethod
    async def cancel(self, key: Key, *, all_of_them: bool = False) -> bool:
        """Cancel the run of a session, or also those that wait, and return when that is done; False if it has none."""

    @abstractmethod
    async def close(self, grace: float) -> None:
        """Take no more runs, and let the streams that are open have `grace` seconds; then end them."""

    @abstractmethod
    def abort(self) -> None:
        """End all streams now."""

    def check_streams(self) -> None:
        """Raise `ProblemError` (503) if no more answers can be streamed."""
        if self._streams >= self.settings.max_streams:
            raise ProblemError(
                503, "too_many_streams", "Too many streams are open. Try again later.", headers={"Retry-After": "1"}
            )

    @contextmanager
    def stream(self) -> Generator[None]:
        """Count an answer that is streamed."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            if not self._streams:
                self._no_stream.set()

    async def _sent(self) -> None:
        """Wait until all streams have sent what is left."""
        if self._streams:
            self._no_stream.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING_SECONDS):
                    await self._no_stream.wait()

    async def _ended(self, runs: Sequence[ServedRun], seconds: float) -> None:
        waiting = [asyncio.ensure_future(run.ended.wait()) for run in runs]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()


class LocalRuns(Runs):
    """The runs of this process. `runner_of` gives the runner of an app."""

    def __init__(self, settings: ServerSettings, runner_of: Callable[[str], Awaitable[Runner]]) -> None:
        super().__init__(settings)
        self._runner_of = runner_of
        self._lines: dict[Key, list[ServedRun]] = {}
        """The run of each session, and behind it those that wait."""

    async def check(self, app_name: str) -> None:
        """See `Runs.check`."""
        await self._runner_of(app_name)

    async def begin(
        self, key: Key, arguments: RunArguments, *, places: Places, grace: float | None = None, split: bool = True
    ) -> ServedRun:
        """See `Runs.begin`."""
        runner = await self._runner_of(key[0])
        if self.stopping:
            raise shutting_down()
        line = self._lines.get(key)
        if line and (self.settings.on_busy == "reject" or len(line) > MOST_QUEUED):
            raise session_busy()
        try:
            source = LocalRun(runner, arguments)
        except InputValidationError as error:  # of an answer that cannot be read
            raise refusal_of(error) or error from error
        run = ServedRun(
            source,
            answered=answered_calls(arguments.get("new_message")),
            places=places,
            grace=self.settings.resume_grace if grace is None else grace,
            split=split,
            dev=self.settings.dev,
            share=self._share,
            on_over=lambda over: self._over(key, over),
        )
        if line:
            line.append(run)
        else:
            self._lines[key] = [run]
            run.start()
        return run

    def _share(self) -> int:
        """How many bytes of frames each run may keep."""
        return min(KEPT_BYTES, KEPT_BYTES_OF_ALL // max(len(self._lines), 1))

    def _over(self, key: Key, run: ServedRun) -> None:
        line = self._lines[key]
        was_first = line[0] is run
        line.remove(run)
        if not line:
            del self._lines[key]
        elif was_first:
            line[0].start()

    def of(self, key: Key) -> list[ServedRun]:
        """See `Runs.of`."""
        return list(self._lines.get(key, ()))

    async def sessions_of(self, app_name: str, user_id: str) -> set[str]:
        """See `Runs.sessions_of`."""
        return {key[2] for key in self._lines if key[:2] == (app_name, user_id)}

    async def listed(self, key: Key) -> list[Listed]:
        """See `Runs.listed`."""
        return [
            Listed(run.invocation_id or None, "running")
            if run.started
            else Listed(run.invocation_id or None, "waiting", "session", number)
            for number, run in enumerate(self.of(key))
        ]

    async def follow(
        self, session: Session, invocation_id: str, place: Place | None, places: Places
    ) -> FrameReader | None:
        """See `Runs.follow`."""
        for each in self.of((session.app_name, session.user_id, session.id)):
            if each.invocation_id == invocation_id:
                at = None if place is None else each.after(place)
                if place is not None and at is None:
                    raise ProblemError(410, "gone", "What follows that event is not kept any more. Read the session.")
                return each.read(at)
        return None

    async def cancel(self, key: Key, *, all_of_them: bool = False) -> bool:
        """See `Runs.cancel`."""
        runs = self.of(key) if all_of_them else self.of(key)[:1]
        for run in reversed(runs):
            run.cancel(None if run.started else session_not_found())  # all are cancelled for a session that goes
        await self._ended(runs, ENDING_SECONDS)
        return bool(runs)

    async def close(self, grace: float) -> None:
        """See `Runs.close`: what does not end in the grace is cancelled."""
        self.stopping = True
        running: list[ServedRun] = []
        for line in list(self._lines.values()):
            first, *behind = line
            running.append(first)
            for waiting in behind:
                waiting.cancel(shutting_down())
        await self._ended(running, grace)
        self.abort()
        await self._ended(running, ENDING_SECONDS)
        await self._sent()

    def abort(self) -> None:
        """See `Runs.abort`."""
        for line in list(self._lines.values()):
            for run in reversed(list(line)):
                run.cancel(shutting_down())
