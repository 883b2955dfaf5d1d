"""One engine in a process of its own: reads cases as JSON lines, runs them, and writes what a turn took."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

from benchmarks import bare


def resident() -> float:
    """The memory of this process at its highest, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(kept: dict[tuple[str, int], Any], package: str, case: str, size: int, turns: int) -> dict[str, float]:
    """Microseconds of one turn, and by how many MiB the process grew."""
    engine = kept.get((case, size))
    if engine is None:
        if package == "bare":
            engine = bare.Engine(case, size)
        else:
            from benchmarks.engine import engine as make

            engine = make(package, case, size)
        await engine.start()
        kept[case, size] = engine
        if case != "concurrent":
            for _ in range(3):
                await engine.turn()
    before = resident()
    started = time.perf_counter()
    for _ in range(turns):
        await engine.turn()
    return {"us": (time.perf_counter() - started) / turns * 1e6, "mib": resident() - before}


def main() -> None:
    package = sys.argv[1]
    kept: dict[tuple[str, int], Any] = {}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            task = json.loads(line)
            print(json.dumps(runner.run(measure(kept, package, **task))), flush=True)


if __name__ == "__main__":
    main()
