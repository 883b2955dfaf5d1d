"""The results in Markdown."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import Curve, Line, Point, Results, Row

MARKS = ("<!-- benchmarks -->", "<!-- /benchmarks -->")
KINDS = {
    "warm": "A request to a session that has not changed since the last one",
    "new": "A request after one more event",
    "cold": "The first request",
    "turn": "",
}


def shown(value: float | None) -> str:
    """A number in three digits or so; nothing for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(results: Results) -> str:
    """The lines with a column for each engine: flowloom and what is aimed at first."""
    others = [name for name in results.engines if name != "flowloom" and any(name in row.cells for row in results.rows)]
    heads = ["", "flowloom", "aim", *(results.engines[name] for name in others)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines[0] = lines[0].replace("|  |", "| |", 1)
    return "\n".join([*lines, *(_row(row, others) for row in results.rows)])


def _row(row: Row, others: list[str]) -> str:
    own = row.cells.get("flowloom")
    aim = "" if row.aim is None else f"{'≥' if row.unit == 'runs/s' else '≤'} {row.aim:,g}"
    cells = [row.title, f"{shown(own.value)} {row.unit}" if own is not None else "", aim]
    for name in others:
        cell = row.cells.get(name)
        cells.append(shown(cell.value) if cell is not None else "")
    return "| " + " | ".join(cells) + " |"


def page(results: Results) -> str:
    """Everything, with pictures beside it."""
    parts = [
        "# What flowloom costs",
        f"Measured with Python {results.python} on {results.cores} cores, in up to {results.rounds} rounds, by "
        "`python -m benchmarks` (see its modules for what each line runs). Every engine has a process of its own; the "
        "engines take turns in rounds, a ratio is taken inside a round, and the median of the rounds is shown. All "
        "models answer from the same script, without a network; tracing is not exported anywhere. A cell is empty "
        "where an engine has no notion of the case, or where the unit says nothing about it.",
        "The bare loop, flowloom and google-adk make google-genai's content types for every answer, the others their "
        "own, so that the pieces of a stream cost some of them less than they cost the bare loop. How each engine was "
        "set up stands at the top of its file in `benchmarks/peers`.",
        table(results),
        "![Turns beside the bare loop](turns.svg)",
    ]
    if results.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in results.notes)]
    for curve in results.curves:
        parts += [f"## {curve.title}", f"![{curve.title}]({curve.key}.svg)"]
        parts.append(f"Microseconds, and in parentheses {curve.unit} in the same round. Across: {curve.label}.")
        kinds = [kind for kind in KINDS if any(line.kind == kind for line in curve.lines)]
        for kind in kinds:
            parts += [f"{KINDS[kind]}:"] if len(kinds) > 1 else []
            parts.append(curve_table(curve, kind))
    return "\n\n".join(parts) + "\n"


def curve_table(curve: Curve, kind: str) -> str:
    """One kind of a curve's lines."""
    heads = ["", *(f"{size:,}" for size in curve.sizes)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines[0] = lines[0].replace("|  |", "| |", 1)
    drawn = [line for line in curve.lines if line.kind == kind]
    rows = ("| " + " | ".join([_name(line), *map(_point, line.points)]) + " |" for line in drawn)
    return "\n".join([*lines, *rows])


def _name(line: Line) -> str:
    return line.engine if line.name == line.engine else f"{line.engine}: {line.name}"


def _point(point: Point | None) -> str:
    return "" if point is None else f"{shown(point.us)} ({shown(point.ratio)})"


def write_into(path: Path, text: str) -> None:
    """Put a text between the marks of a Markdown file. Raises `ValueError` if it has none."""
    before, mark, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        raise ValueError(f"{path} has no lines {MARKS[0]} and {MARKS[1]}, between which the table could stand.")
    path.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")
