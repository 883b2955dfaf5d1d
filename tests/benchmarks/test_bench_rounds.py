"""The processes of the engines, and the rounds in which they take turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import engines, rounds
from benchmarks.engines import BARE, PEERS, Installed, install, install_all
from benchmarks.rounds import Fleet, Plan, Worker, WorkerError, cell_of

HERE = Installed(BARE, sys.executable)


@pytest.fixture(autouse=True)
def homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Logs and environments away from the checkout."""
    monkeypatch.setattr(rounds, "HOMES", tmp_path / "bench")
    monkeypatch.setattr(engines, "HOMES", tmp_path / "bench")
    return tmp_path / "bench"


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(HERE)
    yield worker
    worker.close()


def test_a_worker_goes_on_after_a_task_that_failed(worker: Worker) -> None:
    """The error is told, and the next task is done."""
    with pytest.raises(WorkerError, match="TypeError"):
        worker.ask("turns", nonsense=1)
    assert worker.ask("turns", case="text", size=0, seconds=0.001)["us"] > 0


def test_a_worker_that_ends_is_an_error(worker: Worker) -> None:
    worker.close()
    with pytest.raises(WorkerError, match="ended"):
        worker.ask("forget")


def test_a_worker_that_does_not_answer_is_given_up(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "TIMEOUT", 0.01)
    with pytest.raises(WorkerError, match="no answer"):
        worker.ask("turns", case="text", size=0, seconds=60)


def test_what_fails_is_noted_once_and_the_run_goes_on() -> None:
    notes: list[str] = []
    with Fleet([HERE], notes) as fleet:
        assert fleet.ask(HERE, "a line", "turns", nonsense=1) is None
        assert fleet.ask(HERE, "a line", "turns", case="text", size=0, seconds=0.001) is None
        assert fleet.ask(HERE, "another", "turns", case="text", size=0, seconds=0.001) is not None
    assert len(notes) == 1
    assert notes[0].startswith("bare loop, a line: TypeError")


def test_a_peer_that_cannot_be_installed_is_left_out(homes: Path) -> None:
    """With a note that names it."""
    homes.write_text("a file where the environments would be")
    found, notes = install_all((BARE, PEERS[0]))
    assert [each.name for each in found] == ["bare loop"]
    assert notes[0].startswith("google-adk is left out")


def test_engines_without_requirements_run_in_this_environment() -> None:
    assert install(BARE).python == sys.executable


def test_rounds_end_when_the_time_is_up_but_three_are_run() -> None:
    assert list(Plan(rounds=5, seconds=0, limit=60).each_round()) == [0, 1, 2, 3, 4]
    assert list(Plan(rounds=5, seconds=0, limit=-1).each_round()) == [0, 1, 2]
    assert list(Plan(rounds=5, seconds=0, limit=60).each_round(2)) == [0, 1]


def test_a_cell_is_the_median_with_its_ends() -> None:
    assert vars(cell_of([3.0, 1.0, 2.0])) == {"value": 2.0, "low": 1.0, "high": 3.0}
