"""What the world has seen: which shelves were begun, and what was paid. A SQLite file, which all workers share: the one
that `NIGHT_LEDGER` names, or `night_shift.db` in the folder for temporary files."""

import os
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

_TABLES = (
    "CREATE TABLE IF NOT EXISTS notes (process INTEGER, key TEXT, about TEXT)",
    "CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, boxes INTEGER)",
)


def note(process: int, key: str, about: str) -> None:
    """Write down what a process begins."""
    with _books() as books:
        books.execute("INSERT INTO notes VALUES (?, ?, ?)", (process, key, about))


def pay(key: str, boxes: int) -> None:
    """Pay for boxes. A payment of the same key is made once, however often a fault has it made again."""
    with _books() as books:
        books.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", (key, boxes))


def notes() -> list[tuple[int, str, str]]:
    """What was written down, in order."""
    with _books() as books:
        return books.execute("SELECT process, key, about FROM notes ORDER BY rowid").fetchall()


def payments() -> list[int]:
    """The boxes of each payment."""
    with _books() as books:
        return [boxes for (boxes,) in books.execute("SELECT boxes FROM payments")]


@contextmanager
def _books() -> Generator[sqlite3.Connection]:
    """The file, with the tables in it; committed in the end."""
    path = os.environ.get("NIGHT_LEDGER") or Path(tempfile.gettempdir()) / "night_shift.db"
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        for table in _TABLES:
            connection.execute(table)
        yield connection
