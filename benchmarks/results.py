"""What was measured, as data: the JSON of a run, from which tables and pictures are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter


@dataclass
class Cell:
    """The median of the rounds, and their ends."""

    value: float
    low: float
    high: float


@dataclass
class Row:
    """One line of the table: a cell for each engine that can express it."""

    title: str
    unit: str
    aim: float | None
    cells: dict[str, Cell] = field(default_factory=dict[str, Cell])

    def met(self, engine: str = "flowloom") -> bool:
        """Whether the aim is reached; a line without one, or without a measurement, misses nothing."""
        cell = self.cells.get(engine)
        if cell is None or self.aim is None:
            return True
        return cell.value >= self.aim if self.unit == "runs/s" else cell.value <= self.aim


@dataclass
class Point:
    """Microseconds, and the ratio to the curve's unit that was measured in the same round."""

    us: float
    ratio: float


@dataclass
class Line:
    """One engine's or processor's way along a curve. A point that could not be measured is None."""

    engine: str
    name: str
    kind: str
    points: list[Point | None]


@dataclass
class Curve:
    """What something costs as something grows."""

    key: str
    title: str
    label: str
    unit: str
    sizes: list[int]
    lines: list[Line] = field(default_factory=list[Line])


@dataclass
class Results:
    """A whole run."""

    python: str
    cores: int
    rounds: int
    engines: dict[str, str] = field(default_factory=dict[str, str])
    """The headings of the engines that took part, by name."""
    rows: list[Row] = field(default_factory=list[Row])
    curves: list[Curve] = field(default_factory=list[Curve])
    notes: list[str] = field(default_factory=list[str])

    def save(self, path: Path) -> None:
        """Write the results as JSON."""
        path.write_bytes(_ADAPTER.dump_json(self, indent=1) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        """The results that `save` wrote. Raises `pydantic.ValidationError` for another file."""
        return _ADAPTER.validate_json(path.read_bytes())


_ADAPTER: TypeAdapter[Results] = TypeAdapter(Results)
