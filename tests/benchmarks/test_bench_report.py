"""What becomes of the measurements: JSON, Markdown, pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import plots, report
from benchmarks.results import Cell, Curve, Line, Point, Results, Row
from benchmarks.table import in_unit


def a_cell(value: float) -> Cell:
    return Cell(value, value, value)


def some_results() -> Results:
    rows = [
        Row("a text turn", "× bare loop", 4, {"flowloom": a_cell(3.987), "peer": a_cell(109.2)}),
        Row("500 runs", "runs/s", 2000, {"flowloom": a_cell(2614.2)}),
        Row("the imports", "ms", None, {"peer": a_cell(0.5)}),
    ]
    warm = Line("flowloom", "contents", "warm", [Point(3.1, 0.4), Point(4.2, 0.5)])
    new = Line("flowloom", "contents", "new", [Point(7.1, 0.9), None])
    curve = Curve("processors-history", "Processors", "events", "× one content", [10, 1000], [warm, new])
    engines = {"bare loop": "bare loop", "flowloom": "flowloom", "peer": "peer 1.2"}
    return Results("3.11", 2, 5, engines, rows, [curve], ["peer, the imports: it failed"])


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.123, "0.12"), (3.987, "3.99"), (52.31, "52.3"), (2614.2, "2,614")]
)
def test_numbers_have_about_three_digits(value: float | None, text: str) -> None:
    assert report.shown(value) == text


def test_the_table_has_a_column_for_each_engine_that_took_part() -> None:
    """A cell is empty where there is nothing to say; an engine without any cell has no column."""
    assert report.table(some_results()).splitlines() == [
        "| | flowloom | aim | peer 1.2 |",
        "|---|---|---|---|",
        "| a text turn | 3.99 × bare loop | ≤ 4 | 109 |",
        "| 500 runs | 2,614 runs/s | ≥ 2,000 |  |",
        "| the imports |  |  | 0.50 |",
    ]


def test_the_page_shows_curves_by_kind_and_the_notes() -> None:
    page = report.page(some_results())
    assert "| flowloom: contents | 3.10 (0.40) | 4.20 (0.50) |" in page
    assert "| flowloom: contents | 7.10 (0.90) |  |" in page
    assert "![Processors](processors-history.svg)" in page
    assert "- peer, the imports: it failed" in page


def test_the_table_is_put_between_the_marks(tmp_path: Path) -> None:
    """What stands around stays, what stood between goes."""
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\nafter\n", encoding="utf-8")
    report.write_into(page, "new")
    assert page.read_text(encoding="utf-8") == "before\n<!-- benchmarks -->\nnew\n<!-- /benchmarks -->\nafter\n"


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("before <!-- benchmarks -->", encoding="utf-8")
    with pytest.raises(ValueError, match="no lines <!-- benchmarks -->"):
        report.write_into(page, "new")
    assert page.read_text(encoding="utf-8") == "before <!-- benchmarks -->"


def test_results_survive_their_json(tmp_path: Path) -> None:
    some_results().save(tmp_path / "results.json")
    assert Results.load(tmp_path / "results.json") == some_results()


def test_an_aim_is_met_from_its_own_side() -> None:
    rows = some_results().rows
    assert [row.met() for row in rows] == [True, True, True]
    assert not Row("a", "× bare loop", 4, {"flowloom": a_cell(4.1)}).met()
    assert not Row("a", "runs/s", 2000, {"flowloom": a_cell(1999)}).met()


def test_a_measurement_is_shown_in_its_unit() -> None:
    assert in_unit("ms", 1500, None) == 1.5
    assert in_unit("runs/s", 250_000, None) == 2000
    assert in_unit("× bare loop", 100, 25) == 4


def test_the_same_results_give_the_same_pictures(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        assert [path.name for path in plots.write_all(some_results(), folder)] == [
            "turns.svg",
            "processors-history.svg",
        ]
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()
    assert "contents" in (folders[0] / "processors-history.svg").read_text(encoding="utf-8")
