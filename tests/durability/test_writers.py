"""Many processes write to one session: no event is lost, no number left out, no run failed by another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent


def written(store: str, *asked: str, program: str = "writers") -> dict[str, Any]:
    """What came of processes that began together; fails if one of them did."""
    done = subprocess.run(
        [sys.executable, "-m", f"durability.{program}", store, *asked],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.soak
@pytest.mark.parametrize("concurrency", ["queue", "allow"])
def test_eight_processes_on_one_sqlite_session(concurrency: str, tmp_path: Path) -> None:
    written(str(tmp_path / "db"), "--writers", "8", "--events", "20", "--turns", "3", "--concurrency", concurrency)


@pytest.mark.soak
def test_many_sessions_in_one_sqlite_file(tmp_path: Path) -> None:
    written(str(tmp_path / "db"), "--sessions", "10", "--writers", "2", "--turns", "2", "--events", "5")


@pytest.mark.soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("concurrency", ["queue", "allow"])
def test_fifty_processes_on_one_postgres_session(concurrency: str, postgres_dsn: str) -> None:
    written(postgres_dsn, "--writers", "50", "--events", "6", "--turns", "1", "--concurrency", concurrency)


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def test_others_go_on_at_once_when_the_process_that_had_the_lease_was_killed(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = str(tmp_path / "db") if store == "sqlite" else request.getfixturevalue("postgres_dsn")
    took = written(where, "--held", "--writers", "3", "--events", "1", "--turns", "1")["seconds"]
    assert took < 15  # the lease, of thirty seconds, is not waited for


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_processes_that_give_one_approval_at_once_run_its_call_once(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One of four carries it out, the others have nothing to do; so has it again, and another answer is refused."""
    where = str(tmp_path / "db") if store == "sqlite" else request.getfixturevalue("postgres_dsn")
    came = written(where, str(tmp_path / "diary"), program="deciders")
    assert came["diary"] == ["paid 5"]
    idle = "final, 0 events"
    assert came["found"][1:] == [["Paid.", idle, idle, idle], [idle], ["refused"]]
