"""What a turn costs, as ratios inside one process, so that a busy machine fails no test."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks import bare
from benchmarks.engine import engine

SLACK = 1.75
"""How much more than the aim is let pass: this is a gate against slow growth, the benchmarks measure."""


async def ratio(mine: Any, other: Any, turns: int) -> float:
    """The best of some rounds, each of which runs both."""
    await mine.start()
    await other.start()
    found: list[float] = []
    for _ in range(7):
        times: list[float] = []
        for each in (other, mine):
            started = time.perf_counter()
            for _ in range(turns):
                await each.turn()
            times.append(time.perf_counter() - started)
        found.append(times[1] / times[0])
    return min(found)


@pytest.mark.parametrize(
    ("case", "aim", "turns"), [("text", 4, 60), ("tool", 4, 40), ("stream", 2, 3), ("transfer", 4, 40)]
)
async def test_a_turn_beside_the_bare_loop(case: str, aim: float, turns: int) -> None:
    assert await ratio(engine("flowloom", case, 0), bare.Engine(case, 0), turns) < aim * SLACK


async def test_a_long_history_costs_what_a_short_one_does() -> None:
    """A turn at 1,000 turns of history beside one at 10."""
    assert await ratio(engine("flowloom", "history", 1000), engine("flowloom", "history", 10), 20) < 1.5 * SLACK


async def test_a_large_tree_costs_what_one_agent_does() -> None:
    assert await ratio(engine("flowloom", "tree", 50), engine("flowloom", "tree", 1), 20) < 1.3 * SLACK
