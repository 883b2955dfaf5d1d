"""What a turn costs, as ratios inside one process, so that a busy machine fails no test."""

from __future__ import annotations

import time

import pytest

from benchmarks.passes import Place
from benchmarks.peers import bare, flowloom
from benchmarks.peers.engine import Engine
from benchmarks.processors import place
from flowloom.flow.pipeline import name_of
from flowloom.processors import REQUEST_PROCESSORS

SLACK = 1.75
"""How much more than the aim is let pass: this is a gate against slow growth, the benchmarks measure."""
FLAT = 2
"""By how much what should cost the same may differ."""
FLOOR = 0.5
"""Microseconds that are added on both sides: below, the clock is what is measured."""
NAMES = [name_of(processor) for processor in REQUEST_PROCESSORS]
LOOK_AT_NEIGHBOURS = ("tools", "agent_transfer", "tool_declarations")
"""The processors that see whether the tree has changed, and so look at each neighbour."""


async def ratio(mine: Engine, other: Engine, turns: int) -> float:
    """The best of some rounds, each of which runs both."""
    found: list[float] = []
    for number in range(8):
        times: list[float] = []
        for each in (other, mine):
            await each.start()
            for _ in range(4):
                await each.turn()
            started = time.process_time()
            for _ in range(turns):
                await each.turn()
            times.append(time.process_time() - started)
        if number:  # the first one warms up
            found.append(times[1] / times[0])
    return min(found)


@pytest.mark.parametrize(
    ("case", "aim", "turns"),
    [
        ("text", 4, 60),
        ("tool", 4, 40),
        ("sync_tool", 6, 40),
        ("loop_tool", 4, 40),
        ("stream", 2, 3),
        ("transfer", 4, 40),
    ],
)
async def test_a_turn_beside_the_bare_loop(case: str, aim: float, turns: int) -> None:
    assert await ratio(flowloom.engine(case, 0), bare.engine(case, 0), turns) < aim * SLACK


async def test_a_long_history_costs_what_a_short_one_does() -> None:
    """A turn at 1,000 turns of history beside one at 10."""
    assert await ratio(flowloom.engine("history", 1000), flowloom.engine("history", 10), 20) < 1.5 * SLACK


async def test_a_large_tree_costs_what_one_agent_does() -> None:
    assert await ratio(flowloom.engine("tree", 50), flowloom.engine("tree", 1), 20) < 1.3 * SLACK


async def least(places: list[Place], passes: int, *, growing: bool = False) -> list[dict[str, float]]:
    """Microseconds of each processor in its best pass, the places taking turns."""
    best: list[dict[str, float]] = [{} for _ in places]
    for number in range(passes + 3):
        for each, found in zip(places, best, strict=True):
            if growing and number:
                await each.grow()
            for name, spent in (await each.one_pass()).items():
                if number >= 3:  # those before warm up
                    found[name] = min(found.get(name, spent / 1000), spent / 1000)
    return best


def grown(small: dict[str, float], large: dict[str, float]) -> dict[str, float]:
    """How many times as much each processor takes."""
    return {name: (large[name] + FLOOR) / (small[name] + FLOOR) for name in small}


@pytest.mark.parametrize("growing", [False, True], ids=["nothing new", "one new event"])
async def test_no_processor_costs_more_as_the_history_grows(growing: bool) -> None:
    """A request at 2,000 events of history beside one at 50: nobody reads again what was read before."""
    small, large = await least(
        [place("flowloom", "history", size, plain=True) for size in (50, 2000)], 40, growing=growing
    )
    assert list(large) == NAMES
    assert {name: times for name, times in grown(small, large).items() if times > FLAT} == {}


async def test_no_processor_costs_more_as_a_tool_result_grows() -> None:
    """A megabyte in the history beside a kilobyte: contents are shared and not copied."""
    small, large = await least([place("flowloom", "result", size, plain=True) for size in (1_000, 1_000_000)], 40)
    assert {name: times for name, times in grown(small, large).items() if times > FLAT} == {}


async def test_processors_that_do_not_look_at_neighbours_cost_the_same_in_a_large_tree() -> None:
    small, large = await least([place("flowloom", "agents", size, plain=True) for size in (5, 100)], 40)
    times = grown(small, large)
    assert {name: times[name] for name in times if name not in LOOK_AT_NEIGHBOURS and times[name] > FLAT} == {}


async def test_a_look_at_a_neighbour_is_cheap() -> None:
    """20 times as many agents cost those that look at each less than four times as much."""
    small, large = await least([place("flowloom", "agents", size, plain=True) for size in (5, 100)], 40)
    times = grown(small, large)
    assert {name: times[name] for name in LOOK_AT_NEIGHBOURS if times[name] > 2 * FLAT * SLACK} == {}
