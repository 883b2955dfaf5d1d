"""The engines' processes, and the rounds in which they take turns."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from benchmarks.engines import HOMES, ROOT, Installed
from benchmarks.results import Cell

TIMEOUT = 120.0
"""Seconds after which an engine that does not answer is given up."""


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    rounds: int
    seconds: float
    """How long the turns of one measurement take together."""
    limit: float
    """Seconds after which a line begins no further round; three are run in any case."""

    def each_round(self, rounds: int | None = None, least: int = 3) -> Iterator[int]:
        """The numbers of the rounds, until the time is up."""
        started = time.perf_counter()
        for number in range(rounds or self.rounds):
            if number >= least and time.perf_counter() - started > self.limit:
                return
            yield number


class WorkerError(Exception):
    """An engine's process died, did not answer in time, or said that it failed."""


class Worker:
    """An engine in its process."""

    def __init__(self, engine: Installed) -> None:
        HOMES.mkdir(exist_ok=True)
        self._buffer = b""
        with (HOMES / f"{engine.spec.module}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [engine.python, "-m", "benchmarks.worker", engine.spec.module],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )

    def ask(self, task: str, **arguments: Any) -> dict[str, Any]:
        """Have a task done. Raises `WorkerError`."""
        assert self._process.stdin is not None
        if not self.alive:
            raise WorkerError("its process has ended")
        try:
            self._process.stdin.write(json.dumps({"task": task, **arguments}).encode() + b"\n")
            line = self._line()
        except OSError as error:
            raise WorkerError(f"its process ended ({error})") from error
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        limit = time.monotonic() + TIMEOUT
        while b"\n" not in self._buffer:
            if not select.select([self._process.stdout], [], [], max(0.0, limit - time.monotonic()))[0]:
                self._process.kill()
                raise WorkerError(f"no answer within {TIMEOUT:.0f} s")
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                raise WorkerError("its process ended; the log is in .bench")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        try:
            self._process.communicate(timeout=10)
        except (subprocess.TimeoutExpired, OSError):
            self._process.kill()
            self._process.wait()


class Fleet:
    """The processes of all engines, started when they are first asked. What fails is noted and not asked again."""

    def __init__(self, engines: list[Installed], notes: list[str]) -> None:
        self.engines = engines
        self.notes = notes
        self._workers: dict[str, Worker] = {}
        self._failed: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.close()

    def ask(self, engine: Installed, what: str, task: str, **arguments: Any) -> dict[str, Any] | None:
        """Have a task done for `what`, the line or curve it belongs to; None if the engine has failed in it."""
        if (engine.name, what) in self._failed:
            return None
        worker = self._workers.get(engine.name)
        if worker is None or not worker.alive:
            worker = self._workers[engine.name] = Worker(engine)
        try:
            return worker.ask(task, **arguments)
        except WorkerError as error:
            self._failed.add((engine.name, what))
            self.notes.append(f"{engine.name}, {what}: {error}")
            return None

    def forget(self) -> None:
        """Have all processes let go of what they made for the line that is done."""
        for engine in self.engines:
            if engine.name in self._workers:
                self.ask(engine, "clearing up", "forget")


def cell_of(values: list[float]) -> Cell:
    """The rounds as one cell."""
    return Cell(round(statistics.median(values), 4), round(min(values), 4), round(max(values), 4))
