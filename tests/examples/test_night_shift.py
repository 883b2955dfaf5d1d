"""The night shift: a worker is killed in the middle of a run, and a person approves from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def night(*args: str) -> None:
    """The whole night, and what has to be told of it."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.night_shift", *args],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout
    order = ["Two workers serve", "is killed", "has taken it over", "waits for a person", "is final", "has drained"]
    places = [told.index(each) for each in order]
    assert places == sorted(places)
    assert told.count("got count_shelf") == 6
    assert told.count("got order_boxes") == 1
    assert "Payments: 1, of 21 boxes." in told
    assert told.count("night_shift: 6 shelves are counted. Ordered 21 boxes.") == 1


def test_a_run_outlives_its_worker_and_pays_once() -> None:
    """The other worker goes on from the log, what was under way has the same key, and the order is made once."""
    night()


@pytest.mark.soak
def test_the_night_is_the_same_on_postgresql(postgres_dsn: str) -> None:
    """Nothing but the store is another one."""
    night("--store", postgres_dsn)
