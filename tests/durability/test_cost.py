"""What it costs that sessions last, as ratios inside one process; the benchmarks measure, this is a gate.

The factors are generous: others use the machine too.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.persistence import CASES, last_beside_first, one_more_turn, per_delta, turns_beside_bare_loop

SLACK = 1.75


@pytest.mark.parametrize("case", CASES)
async def test_a_turn_on_sqlite_is_as_quick_as_a_bare_loop_that_writes_everything_down(
    case: str, tmp_path: Path
) -> None:
    """On a disk that is busy; where a sync takes next to nothing, what is left is what the engine does."""
    assert statistics.median(await turns_beside_bare_loop(case, tmp_path, rounds=9)) > 0.5 / SLACK


async def test_a_turn_costs_what_the_first_did_after_two_thousand(tmp_path: Path) -> None:
    assert await last_beside_first(tmp_path) < 1.2 * SLACK


async def test_one_more_turn_on_ten_thousand_events(tmp_path: Path) -> None:
    """At most 5 ms for a runner that has seen them, 150 ms for one that has not."""
    seen, cold = await one_more_turn(tmp_path)
    assert seen < 5 * SLACK
    assert cold < 150 * SLACK
    assert seen < cold / 10  # what was seen is not read again, on any machine


def test_a_typed_delta() -> None:
    """At most 3 µs over the event that it is made of."""
    assert per_delta() < 3 * SLACK
