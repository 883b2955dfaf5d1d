"""`Runs`: all runs of a server, one at a time for each session (server spec §9)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress

from flowloom.events.ids import new_id
from flowloom.runner.runner import RunArguments, Runner
from flowloom.server.failures import session_busy, shutting_down
from flowloom.server.places import Places
from flowloom.server.problems import ProblemError
from flowloom.server.run_service import LocalRuns, RunService
from flowloom.server.served_run import KEPT_BYTES, KEPT_BYTES_OF_ALL, Key, ServedRun
from flowloom.server.settings import ServerSettings

MOST_QUEUED = 8
"""How many runs wait for that of their session."""
ENDING_SECONDS = 15.0
"""How long runs that were cancelled may take to end, and their last frames to be sent."""


class Runs:
    """The runs that are under way, by their session, and the streams that are open."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._lines: dict[Key, deque[ServedRun]] = {}
        """The run of each session, and behind it those that wait."""
        self._services: dict[str, tuple[Runner, RunService]] = {}
        self._streams = 0
        """How many answers are being streamed."""
        self._no_stream = asyncio.Event()
        self.stopping = False
        """Whether no more runs are taken."""

    def service_of(self, runner: Runner) -> RunService:
        """What serves the runs of a runner."""
        known = self._services.get(runner.app_name)
        if known is None or known[0] is not runner:
            known = self._services[runner.app_name] = (runner, LocalRuns(runner))
        return known[1]

    def begin(
        self,
        key: Key,
        service: RunService,
        arguments: RunArguments,
        *,
        places: Places,
        grace: float | None = None,
        split: bool = True,
    ) -> ServedRun:
        """A new run on a session, by agents at these `places`: it begins now, or when those before it are over.

        Raises `ProblemError`: 409 if the session has a run, or too many wait; 503 while the server stops.
        """
        if self.stopping:
            raise shutting_down()
        line = self._lines.get(key)
        if line and (self._settings.on_busy == "reject" or len(line) > MOST_QUEUED):
            raise session_busy()
        run = ServedRun(
            new_id(),
            service,
            arguments,
            places=places,
            grace=self._settings.resume_grace if grace is None else grace,
            split=split,
            dev=self._settings.dev,
            share=self._share,
            on_over=lambda over: self._over(key, over),
        )
        if line:
            line.append(run)
        else:
            self._lines[key] = deque([run])
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
        """The runs of a session: the one that goes on, and those that wait."""
        return list(self._lines.get(key, ()))

    async def cancel(self, key: Key, *, all_of_them: bool = False) -> bool:
        """Cancel the run of a session, or also those that wait, and return when that is done; False if it has none."""
        runs = self.of(key) if all_of_them else self.of(key)[:1]
        for run in reversed(runs):
            run.cancel()
        await self._ended(runs, ENDING_SECONDS)
        return bool(runs)

    def check_streams(self) -> None:
        """Raise `ProblemError` (503) if no more answers can be streamed."""
        if self._streams >= self._settings.max_streams:
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

    async def close(self, grace: float) -> None:
        """Take no more runs, and let those that are under way have `grace` seconds; then cancel them."""
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
        if self._streams:  # they send what is left
            self._no_stream.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING_SECONDS):
                    await self._no_stream.wait()

    def abort(self) -> None:
        """Cancel all runs now."""
        for line in list(self._lines.values()):
            for run in reversed(list(line)):
                run.cancel(shutting_down())

    async def _ended(self, runs: list[ServedRun], seconds: float) -> None:
        waiting = [asyncio.ensure_future(run.ended.wait()) for run in runs]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()
