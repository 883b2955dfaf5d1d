"""What it costs that sessions last, as ratios inside one process; the benchmarks measure, this is a gate.

The factors are generous: others use the machine too.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.persistence import CASES, late_beside_early, per_delta, sync, turns_beside_bare_loop

SLACK = 1.75
_ONE_MORE_TURN = """
import asyncio, pathlib, sys
from benchmarks.persistence import one_more_turn
print(*asyncio.run(one_more_turn(pathlib.Path(sys.argv[1]))))
"""
ATTEMPTS = 3
"""After how many attempts other work on the machine is no excuse."""
NOTICEABLE = 300
"""From how many microseconds on a sync of the disk costs more than the engine."""


@pytest.mark.parametrize("case", CASES)
async def test_a_turn_on_sqlite_is_as_quick_as_a_bare_loop_that_writes_everything_down(
    case: str, tmp_path: Path
) -> None:
    """As quick where a sync takes its time; where it takes next to nothing, what is left is what the engine does."""
    for number in range(ATTEMPTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        before = sync(folder)
        found = statistics.median(await turns_beside_bare_loop(case, folder, rounds=9))
        noticeable = min(before, sync(folder)) > NOTICEABLE  # the disk's own time: others use it now and then
        if found > (1.0 if noticeable else 0.5) / SLACK:
            return
    raise AssertionError(f"the turns of a bare loop that writes take {found:.2f} of the time of ours")


async def test_a_turn_costs_what_the_first_did_after_two_thousand(tmp_path: Path) -> None:
    assert await late_beside_early(tmp_path) < 1.2 * SLACK


@pytest.mark.soak
def test_one_more_turn_on_ten_thousand_events(tmp_path: Path) -> None:
    """At most 5 ms for a runner that has seen them, 150 ms for one that has not: in a program of its own, because the
    garbage collector goes through all that a process has."""
    command = [sys.executable, "-c", _ONE_MORE_TURN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    seen, cold = map(float, done.stdout.split())
    assert seen < 5 * SLACK
    assert cold < 150 * SLACK
    assert seen < cold / 10  # what was seen is not read again, on any machine


@pytest.mark.soak
def test_a_typed_delta() -> None:
    """At most 3 µs over the event that it is made of."""
    assert per_delta() < 3 * SLACK
