"""One engine in a process of its own: reads tasks as JSON lines, does them, and writes what they took.

`python -m benchmarks.worker MODULE` serves tasks; with `--once`, it does one turn and ends, for the cold start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import script
from benchmarks.peers.engine import Engine

WARM_UP = 4
"""Turns before the first that counts: of an engine, and of every conversation with a history."""


def checked(case: str, text: str) -> None:
    """Raise `RuntimeError` if a turn did not end with what the script ends it with."""
    if text != script.expected(case):
        raise RuntimeError(f"A turn of the case `{case}` ended with {text[:80]!r}, not {script.expected(case)[:80]!r}.")


class Tasks:
    """What a worker can be asked for, by the name of the method."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.engines: dict[tuple[str, int], Engine] = {}

    def make(self, case: str, size: int) -> Engine:
        return import_module(f"benchmarks.peers.{self.module}").engine(case, size)

    async def turns(self, case: str, size: int, seconds: float) -> dict[str, float]:
        """Microseconds of one turn, over turns that take `seconds` together."""
        engine = self.engines.get((case, size))
        if engine is None:
            engine = self.engines[case, size] = self.make(case, size)
            await engine.start()
            for _ in range(0 if case == "concurrent" else WARM_UP):  # its first round is warm after a few of its runs
                checked(case, await engine.turn())
        spent, count = 0.0, 0
        while spent < seconds:
            await engine.start()
            if case in script.HISTORIES:
                for _ in range(WARM_UP):  # a session that is in use has been shown to its agent before
                    await engine.turn()
                gc.freeze()  # a collection of the whole history would hit some turns and not others
            text = ""
            started = time.perf_counter()
            for _ in range(engine.batch):
                text = await engine.turn()
                count += 1
                if time.perf_counter() - started > seconds - spent:
                    break
            spent += time.perf_counter() - started
            checked(case, text)
        return {"us": spent / count * 1e6, "turns": count}

    async def growth(self, case: str, size: int) -> dict[str, float]:
        """By how many MiB the process grows for one turn, beyond what its imports and one turn of text need."""
        small = self.make("tool", 0)
        await small.start()
        await small.turn()
        before = resident()
        engine = self.make(case, size)
        await engine.start()
        await engine.turn()
        return {"mib": resident() - before}

    async def forget(self) -> dict[str, float]:
        """Let go of the engines that were made."""
        self.engines.clear()
        gc.unfreeze()
        gc.collect()
        return {}

    async def processors(self, axis: str, size: int, seconds: float) -> dict[str, Any]:
        """Every request processor alone (see `benchmarks.processors`)."""
        return await import_module("benchmarks.processors").measure_all(self.module, axis, size, seconds)

    async def sessions(self, size: int, repeat: int) -> dict[str, Any]:
        """What a session service takes at a length (see `benchmarks.sessions`)."""
        names = import_module(f"benchmarks.peers.{self.module}").NAMES
        return await import_module("benchmarks.sessions").measure(names, size, repeat)


def resident() -> float:
    """The memory of this process at its highest, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # what `getrusage` says there begins with the memory of the process that started this one
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def answer(tasks: Tasks, line: str) -> dict[str, Any]:
    """What a task gives; an error becomes an answer, so that the other tasks still run."""
    asked = json.loads(line)
    do: Callable[..., Awaitable[dict[str, Any]]] = getattr(tasks, asked.pop("task"))
    try:
        return await do(**asked)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


async def once(module: str) -> None:
    """The first turn of a fresh process."""
    engine = Tasks(module).make("text", 0)
    await engine.start()
    checked("text", await engine.turn())


def main() -> None:
    logging.disable(logging.WARNING)  # some would write a line about every turn
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints does not get between the answers
    tasks = Tasks(sys.argv[1])
    with asyncio.Runner() as runner:
        if "--once" in sys.argv:
            runner.run(once(sys.argv[1]))
            return
        for line in sys.stdin:
            print(json.dumps(runner.run(answer(tasks, line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
