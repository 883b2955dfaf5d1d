"""A run that is killed anywhere leaves a log that is legal, and ends as one that nobody killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

TESTS = Path(__file__).parent.parent
ROUNDS = int(os.environ.get("FLOWLOOM_KILL_ROUNDS", "1"))
"""How many times 200 kills."""


def killed(store: str, folder: Path) -> None:
    """More than 190 kills: 160 runs are to be killed once, 25 once more while they go on."""
    asked = ["--trials", str(185 * ROUNDS), "--twice", str(25 * ROUNDS), "--at-once", "6"]
    done = subprocess.run(
        [sys.executable, "-m", "durability.kills", store, str(folder), *asked],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [trial for trial in told if "failed" in trial]
    assert not failed, f"{failed}\n{done.stderr}"
    assert done.returncode == 0, done.stderr
    assert len(told) == 1 + 185 * ROUNDS
    assert sum(trial.get("killed", 0) for trial in told) > 0.95 * 200 * ROUNDS  # some came to their end before


@pytest.mark.timeout(300 * ROUNDS)
def test_on_sqlite(tmp_path: Path) -> None:
    killed(str(tmp_path / "sessions"), tmp_path)


@pytest.mark.timeout(300 * ROUNDS)
def test_on_postgres(postgres_dsn: str, tmp_path: Path) -> None:
    killed(postgres_dsn, tmp_path)
