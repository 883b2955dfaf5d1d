"""What is measured beside a service of others: works taken in turns, and the service in a process of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

Work = Callable[[int], Awaitable[None]]


async def in_turns(works: Mapping[str, Work], rounds: int, each: int) -> dict[str, list[float]]:
    """Milliseconds of processor time of each work in each round, `each` times a round; the first round warms up.

    They are taken in turns so that what else the machine does falls on all of them. Each work is given its number.
    """
    values: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            taken: list[float] = []
            for index in range(number * each, (number + 1) * each):
                began = time.process_time()
                await work(index)
                taken.append((time.process_time() - began) * 1000)
            if number:
                values[name].append(statistics.median(taken))
    return values


@contextmanager
def served_by(module: str) -> Iterator[str]:
    """The address of a service that `python -m MODULE serve` runs, which says its port first."""
    with subprocess.Popen([sys.executable, "-m", module, "serve"], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            yield f"http://127.0.0.1:{other.stdout.readline().strip()}"
        finally:
            other.kill()
