"""The lines of the table and the curves, measured on the engines that need nothing installed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import rounds
from benchmarks.cases import PROCESSORS, SESSIONS, STARTUPS, TURNS, UNOBSERVED, Case
from benchmarks.curves import processor_curve, session_curve, turn_curve
from benchmarks.engines import BARE, CUT, FLOWLOOM, ROOT, Installed
from benchmarks.rounds import Fleet, Plan
from benchmarks.table import run_case, run_memory, run_startup, run_unobserved

pytestmark = pytest.mark.soak

ENGINES = [Installed(BARE, sys.executable), Installed(FLOWLOOM, sys.executable)]
BROKEN = Installed(replace(BARE, name="broken", module="not_there", imports="import not_there"), sys.executable)
TINY = Plan(rounds=1, seconds=0.0005, limit=60)


@pytest.fixture(autouse=True)
def _logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rounds, "HOMES", tmp_path)


def test_lines_are_divided_by_what_they_say() -> None:
    """By the bare loop, which then has no cell, or by the engine's own run at another size."""
    with Fleet(ENGINES, []) as fleet:
        beside = run_case(Case("text", "text", 4), fleet, TINY)
        alone = run_case(Case("long", "history", 2, "× one at 10", 20, 10), fleet, TINY)
        absolute = run_case(Case("big", "big", 2, "ms", 2), fleet, TINY)
    assert list(beside.cells) == ["flowloom"]
    assert list(alone.cells) == list(absolute.cells) == ["bare loop", "flowloom"]
    for row in (beside, alone):  # so short a round may hold a first use of something, or a moment of another process
        assert 0.001 < row.cells["flowloom"].value < 1000


def test_the_engine_without_seams_is_what_the_other_is_divided_by() -> None:
    """It answers the same, and nothing in it observes."""
    cut = Installed(CUT, sys.executable)
    row = run_unobserved(UNOBSERVED, (cut, ENGINES[1]), TINY, notes := [])
    assert notes == []
    assert list(row.cells) == ["flowloom"]
    assert 0.2 < row.cells["flowloom"].value < 5


def test_the_seams_are_cut_out_of_the_source() -> None:
    """Wherever the engine goes through observers; nothing else is missing."""
    code = (
        "import dis, io\n"
        "from benchmarks.peers import flowloom_cut\n"
        "from flowloom.context.run import Run\n"
        "from flowloom.flow.model_call import ModelCall\n"
        "text = io.StringIO()\n"
        "for function in (Run.record, Run.answer_open_calls, ModelCall._call):\n"
        "    dis.dis(function, file=text)\n"
        "print('observer' in text.getvalue(), 'append_event' in text.getvalue())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_an_engine_without_the_notion_has_no_cell() -> None:
    with Fleet(ENGINES, notes := []) as fleet:
        row = run_case(Case("tree", "tree", 2, "× a single agent", 3, 1), fleet, TINY)
    assert list(row.cells) == ["flowloom"]
    assert notes == []


def test_a_broken_engine_leaves_a_note_and_no_cell() -> None:
    """In turns, in memory and in fresh processes alike; the others are measured."""
    with Fleet([*ENGINES, BROKEN], notes := []) as fleet:
        rows = [
            run_case(Case("text", "text", 4, "ms"), fleet, TINY),
            run_memory(Case("memory", "text", 80, "MiB"), fleet),
            run_startup(STARTUPS[2], [ENGINES[0], BROKEN], TINY, notes),
        ]
    assert ["broken" in row.cells for row in rows] == [False] * 3
    assert ["bare loop" in row.cells for row in rows] == [True] * 3
    assert [note.partition(":")[0] for note in notes] == [
        "broken, text",
        "broken, memory",
        "broken, the imports of a first agent",
    ]
    assert all("not_there" in note for note in notes)


def test_curves_have_a_point_for_each_size() -> None:
    """Of turns, of every processor in three states, and of both operations on sessions."""
    with Fleet(ENGINES, notes := []) as fleet:
        turns = turn_curve(replace(TURNS[1], sizes=(1, 2)), fleet, TINY, 1)
        processors = processor_curve(replace(PROCESSORS[0], sizes=(5, 6)), fleet, TINY, 1)
        sessions = session_curve(replace(SESSIONS, sizes=(1, 2)), fleet, TINY, 1)
    assert notes == []
    assert [line.name for line in turns.lines] == ["flowloom"]
    assert len(processors.lines) == 3 * 17
    assert [line.name for line in sessions.lines] == ["append_event", "get_session"]
    points = [point for curve in (turns, processors, sessions) for line in curve.lines for point in line.points]
    assert all(point is not None and point.ratio >= 0 for point in points)
    assert {len(line.points) for curve in (turns, processors, sessions) for line in curve.lines} == {2}
