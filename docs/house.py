"""The picture of the house, docs/images/house.svg: the rooms of the package, and which of them imports which.

`python docs/house.py` draws it anew from the imports in the source; the tests compare it with the file. A room stands
one row above the highest room that it imports. A line that others imply is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "flowloom"
PICTURE = ROOT / "docs" / "images" / "house.svg"

COLUMNS = {
    "who answers": "models providers wrappers human offline",
    "around the engine": "cli server testing inspection client interop run_stream adk protocols config durable skills",
    "the engine": "runner plugins agents flow processors tools context log events",
    "what lasts, what is seen": "telemetry compaction memory sessions artifacts auth sql asgi",
}
GROUND = ("errors", "extras", "objects", "schemas")
"""The rooms that every room may import."""
UPWARD = {("flow", "inspection")}
"""What a function imports when it is called (`Flow.assemble`): no import of the room."""
COLUMN_OF = {room: number for number, rooms in enumerate(COLUMNS.values()) for room in rooms.split()}

WIDTH, PITCH, TOP = 1040, 46, 64
BOX_WIDTH, BOX_HEIGHT, APART = 100, 28, 56
CENTRES = (150, 400, 645, 890)
STYLE = """
  rect { stroke-width: 1.2 } text { font: 14px system-ui, sans-serif; text-anchor: middle; fill: #1c2733 }
  .title { font-weight: 600; fill: #516173 } .paper { fill: #ffffff }
  path { fill: none; stroke: #8896a5; stroke-width: 1.3 } marker path { fill: #8896a5; stroke: none }
  .upward { stroke-dasharray: 4 4 }
  .c0 { fill: #e6f0fb; stroke: #6b9bd1 } .c1 { fill: #f1f3f5; stroke: #9aa5b1 } .c2 { fill: #fdeed3; stroke: #dd9a2f }
  .c3 { fill: #e4f4e8; stroke: #6bae7c } .ground { fill: #ececf6; stroke: #9590c4 }
"""


class Point(NamedTuple):
    """Where the middle of a box is."""

    x: int
    y: int


@cache
def imports() -> dict[str, frozenset[str]]:
    """The rooms above the ground that each room imports, for type checkers too."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.glob("*/**/*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        found.setdefault(room, set()).update(_imported(ast.parse(path.read_text(encoding="utf-8"))))
    above = found.keys() - {*GROUND}
    return {
        room: frozenset(other for other in found[room] & above if other != room and (room, other) not in UPWARD)
        for room in sorted(above)
    }


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "flowloom":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flowloom."):
            yield (node.module or "").split(".")[1]


@cache
def row_of(room: str) -> int:
    """How many rooms stand one upon the other below a room."""
    return 1 + max(map(row_of, imports()[room]), default=-1)


@cache
def below(room: str) -> frozenset[str]:
    """All rooms that a room imports, also by way of others."""
    return imports()[room].union(*map(below, imports()[room]))


def lines() -> Iterator[tuple[str, str]]:
    """The imports that no others imply."""
    for room, others in imports().items():
        for other in sorted(others):
            if not any(other in below(between) for between in others):
                yield room, other


def places() -> dict[str, Point]:
    """Where each room stands: its column by what it is for, its row by what it imports."""
    highest = max(map(row_of, imports()))
    cells: dict[tuple[int, int], list[str]] = {}
    for room in imports():
        cells.setdefault((COLUMN_OF[room], row_of(room)), []).append(room)
    return {
        room: Point(CENTRES[column] + APART * (2 * index - len(rooms) + 1), TOP + PITCH * (highest - row))
        for (column, row), rooms in cells.items()
        for index, room in enumerate(rooms)
    }


def drawn() -> str:
    """The picture, as SVG."""
    where = places()
    bottom = max(place.y for place in where.values()) + PITCH
    parts = [_line(where, *pair) for pair in lines()]
    parts += [_line(where, *pair, kind="upward") for pair in sorted(UPWARD)]
    for room, place in sorted(where.items()):
        parts.append(_box(place, BOX_WIDTH, f"c{COLUMN_OF[room]}", room))
    parts.append(_box(Point(WIDTH // 2, bottom), WIDTH - 80, "ground", ", ".join(GROUND) + ": below every room"))
    for centre, title in zip(CENTRES, COLUMNS, strict=True):
        parts.append(f'<text class="title" x="{centre}" y="28">{title}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + PITCH}" role="img">',
            "<title>The rooms of flowloom, and which of them imports which</title>",
            f"<style>{STYLE}</style>",
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M 0 0 L 8 4 L 0 8 z"/></marker>',
            f'<rect class="paper" width="{WIDTH}" height="{bottom + PITCH}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _box(place: Point, width: int, kind: str, text: str) -> str:
    left, top = place.x - width // 2, place.y - BOX_HEIGHT // 2
    return (
        f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{BOX_HEIGHT}" rx="6"/>'
        f'<text x="{place.x}" y="{place.y + 5}">{text}</text>'
    )


def _line(where: dict[str, Point], room: str, other: str, kind: str = "import") -> str:
    """The line from a room to one that it imports. One that leads far leaves at the side of its box, and one within a
    column goes around the rooms in between."""
    start, end = where[room], where[other]
    half = BOX_HEIGHT // 2 if start.y < end.y else -BOX_HEIGHT // 2
    last = end.y - half
    if COLUMN_OF[room] != COLUMN_OF[other] and abs(end.y - start.y) >= 2 * PITCH:
        side = start.x + (BOX_WIDTH // 2 if start.x < end.x else -BOX_WIDTH // 2)
        turn = (start.y + 9 * last) // 10
        curve = f"M {side} {start.y} C {(side + end.x) // 2} {start.y}, {end.x} {turn}, {end.x} {last}"
    else:
        passed = [place for place in where.values() if start.y < place.y < end.y]
        in_between = COLUMN_OF[room] == COLUMN_OF[other] and any(
            abs(each.x - end.x) < BOX_WIDTH // 2 for each in passed
        )
        bow, first = (-90 if in_between else 0), start.y + half
        middle = (first + last) // 2
        curve = f"M {start.x} {first} C {start.x + bow} {middle}, {end.x + bow} {middle}, {end.x} {last}"
    return f'<path class="{kind}" d="{curve}" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
