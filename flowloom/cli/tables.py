"""Tables of what a store holds."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size


def table(rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    """The rows as lines, their columns below each other."""
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def moment(seconds: float) -> str:
    """A time, given in seconds since 1970, by the clock on the wall."""
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
