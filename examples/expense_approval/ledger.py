"""The books: who was paid how much, and for what. A SQLite file beside the sessions."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

_TABLE = "CREATE TABLE IF NOT EXISTS payments (call TEXT PRIMARY KEY, employee TEXT, amount REAL, description TEXT)"


def folder() -> Path:
    """Where everything is kept: the folder `.expenses`, or what `EXPENSES_FOLDER` names."""
    place = Path(os.environ.get("EXPENSES_FOLDER", ".expenses"))
    place.mkdir(parents=True, exist_ok=True)
    (place / ".gitignore").write_text("*\n", encoding="utf-8")
    return place


def pay(call: str, employee: str, amount: float, description: str) -> None:
    """Enter a payment. `call` names the tool call: one that is made again after a crash is not paid again."""
    with _books() as books:
        books.execute("INSERT OR IGNORE INTO payments VALUES (?, ?, ?, ?)", (call, employee, amount, description))


def payments(employee: str | None = None) -> list[dict[str, object]]:
    """All payments, or those of one employee, in the order made."""
    with _books() as books:
        rows = books.execute("SELECT employee, amount, description FROM payments ORDER BY rowid").fetchall()
    names = ("employee", "amount", "description")
    return [dict(zip(names, row, strict=True)) for row in rows if employee in (None, row[0])]


@contextmanager
def _books() -> Generator[sqlite3.Connection]:
    """The file, with the table in it; committed in the end."""
    with closing(sqlite3.connect(folder() / "ledger.db", timeout=30)) as connection, connection:
        connection.execute(_TABLE)
        yield connection
