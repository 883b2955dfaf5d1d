"""The curves and the table as SVG pictures, the same file for the same results."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.passes import ALL
from benchmarks.results import Curve, Line, Results

STYLE = {
    "svg.hashsalt": "flowloom",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
}
COLOURS = {
    "bare loop": "#555555",
    "flowloom": "#0b6bcb",
    "google-adk": "#c43b1d",
    "google-adk, tuned": "#e8973a",
    "openai-agents": "#2f8f5b",
    "pydantic-ai": "#a0298f",
    "langgraph": "#7a6a12",
}
BARS = ("a text turn", "a model step with a tool call", "a streamed turn of 200 chunks", "a transfer to another agent")
PAIRED = {ALL: "#000000", "contents": "#d11f1f", "tool_declarations": "#00736b", "agent_tools": "#00736b"}
"""Colours of processors that stand beside their like in google-adk."""
FLOOR = 0.01
"""What a curve shows at the least, so that a processor that does nothing has a place on a logarithmic axis."""


def write_all(results: Results, folder: Path) -> list[Path]:
    """Draw everything into a folder; returns the files."""
    with mpl.rc_context(STYLE):
        written = [_save(_bars(results), folder / "turns.svg")]
        written += [_save(_curve(curve), folder / f"{curve.key}.svg") for curve in results.curves]
    return written


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    text = path.read_text(encoding="utf-8")  # matplotlib leaves spaces at the ends of lines
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
    return path


def _bars(results: Results) -> Figure:
    """The turns that are divided by the bare loop, side by side."""
    rows = [row for row in results.rows if row.title in BARS]
    names = [name for name in results.engines if any(name in row.cells for row in rows)]
    figure = Figure(figsize=(9, 4))
    axes = figure.subplots()
    width = 0.8 / max(1, len(names))
    for number, name in enumerate(names):
        places = [at + (number - (len(names) - 1) / 2) * width for at, row in enumerate(rows) if name in row.cells]
        values = [row.cells[name].value for row in rows if name in row.cells]
        bars = axes.bar(places, values, width, label=results.engines[name], color=COLOURS.get(name))
        axes.bar_label(bars, fmt=lambda value: f"{value:.3g}", fontsize=7)
    axes.set_yscale("log")
    axes.set_ylim(bottom=1)
    axes.set_xticks(range(len(rows)), [textwrap.fill(row.title, 18) for row in rows])
    axes.set_ylabel("× bare loop (lower is better)")
    axes.grid(axis="x", visible=False)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _curve(curve: Curve) -> Figure:
    """A panel for each kind of line: warm and new for processors, one for turns and sessions."""
    kinds = [kind for kind in ("turn", "warm", "new") if any(line.kind == kind for line in curve.lines)]
    figure = Figure(figsize=(4.6 * len(kinds) + 1.4, 4.4))
    panels: list[Axes] = list(figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0])
    for axes, kind in zip(panels, kinds, strict=True):
        for number, line in enumerate(_drawn(curve, kind)):
            _draw(axes, curve, line, number)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(curve.sizes, [f"{size:,}" for size in curve.sizes])
        axes.minorticks_off()
        axes.set_xlabel(curve.label)
        if len(kinds) > 1:
            axes.set_title({"warm": "nothing new", "new": "one new event"}[kind], fontsize=10)
    panels[0].set_ylabel(f"{curve.unit} (lower is better)")
    panels[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    figure.suptitle(curve.title)
    return figure


def _drawn(curve: Curve, kind: str) -> list[Line]:
    """The lines of a panel. Of google-adk's processors, all of them together and the one that reads the history."""
    lines = [line for line in curve.lines if line.kind == kind]
    if not curve.key.startswith("processors"):
        return lines
    return [line for line in lines if line.engine == "flowloom" or line.name in (ALL, "contents", "agent_tools")]


def _draw(axes: Axes, curve: Curve, line: Line, number: int) -> None:
    values = [math.nan if point is None else max(point.ratio, FLOOR) for point in line.points]
    name = line.engine if line.name == line.engine else line.name
    if curve.key.startswith("processors"):
        own = line.engine == "flowloom"
        colour = PAIRED.get(line.name) or mpl.colormaps["tab20"](number % 20)
        name = name if own else f"{line.engine}: {name}"
        axes.plot(curve.sizes, values, "-" if own else "--", color=colour, marker=".", label=name, linewidth=1.4)
        return
    style = ":" if line.name == "append_event" else "-"
    label = name if line.name == line.engine else f"{line.engine}: {name}"
    axes.plot(curve.sizes, values, style, color=COLOURS.get(line.engine), marker="o", markersize=4, label=label)
