"""Where SQL memory keeps its words: the full-text indexes of SQLite (FTS5) and PostgreSQL (`tsvector`, GIN).

Text is split into words by `words_of`, not by the database, so that all services find the same. Each word goes into the
index with its owner before it, as in `12xcat`: a search looks up nothing that others remember.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from flowloom.sql import Connection

_LONGEST = 200
"""Characters. What is longer is kept by its checksum: PostgreSQL takes no words of 2 KiB."""
_CHUNK = 400_000
"""Bytes of words in one `tsvector`, of which PostgreSQL takes 1 MiB."""


class WordIndex(Protocol):
    """Finds entries by their words."""

    steps: list[list[str]]
    """Of its migrations."""

    def add(self, connection: Connection, owner: int, entry: int, words: Iterable[str]) -> None:
        """Have an entry found by these words, each of which is given once."""
        ...

    def remove(self, connection: Connection, entry: int) -> None:
        """Have an entry found no more."""
        ...

    def find(self, connection: Connection, owner: int, words: Iterable[str], limit: int) -> list[str]:
        """The entries of an owner that share words with these: most shared words first, then the eldest."""
        ...


class SqliteWords:
    """A row of an FTS5 table for each entry. Its tokenizer splits at ASCII spaces and changes nothing."""

    steps = [  # noqa: RUF012 - the protocol asks for a plain attribute
        ["CREATE VIRTUAL TABLE flowloom_memory_words USING fts5(words, tokenize = 'ascii', detail = 'none')"]
    ]

    def add(self, connection: Connection, owner: int, entry: int, words: Iterable[str]) -> None:
        connection.execute(
            "INSERT INTO flowloom_memory_words (rowid, words) VALUES (?, ?)", (entry, " ".join(_owned(owner, words)))
        )

    def remove(self, connection: Connection, entry: int) -> None:
        connection.execute("DELETE FROM flowloom_memory_words WHERE rowid = ?", (entry,))

    def find(self, connection: Connection, owner: int, words: Iterable[str], limit: int) -> list[str]:
        wanted = [f'"{word}"' for word in _owned(owner, words)]
        return _first_columns(connection.execute(_FIND_IN_SQLITE, (json.dumps(wanted), limit)).fetchall())


class PostgresWords:
    """A `tsvector` for each entry, several for one that is very long; `?` is not an operator here but a parameter."""

    steps = [  # noqa: RUF012 - the protocol asks for a plain attribute
        [
            "CREATE TABLE flowloom_memory_words "
            "(entry BIGINT NOT NULL REFERENCES flowloom_memory_entries, words TSVECTOR NOT NULL)",
            "CREATE INDEX flowloom_memory_words_of_entry ON flowloom_memory_words (entry)",
            "CREATE INDEX flowloom_memory_words_found ON flowloom_memory_words USING gin (words)",
        ]
    ]

    def add(self, connection: Connection, owner: int, entry: int, words: Iterable[str]) -> None:
        for chunk in _chunks(_owned(owner, words)):
            connection.execute(
                "INSERT INTO flowloom_memory_words (entry, words) VALUES (?, array_to_tsvector(?::text[]))",
                (entry, chunk),
            )

    def remove(self, connection: Connection, entry: int) -> None:
        connection.execute("DELETE FROM flowloom_memory_words WHERE entry = ?", (entry,))

    def find(self, connection: Connection, owner: int, words: Iterable[str], limit: int) -> list[str]:
        wanted = [f"'{word}'" for word in _owned(owner, words)]
        return _first_columns(connection.execute(_FIND_IN_POSTGRES, (wanted, limit)).fetchall())


_FIND_IN_SQLITE = """
SELECT e.content FROM (
    SELECT f.rowid AS entry, count(*) AS shared
    FROM json_each(?) AS w CROSS JOIN flowloom_memory_words AS f ON f.flowloom_memory_words MATCH w.value
    GROUP BY f.rowid
) AS found JOIN flowloom_memory_entries AS e ON e.number = found.entry
ORDER BY found.shared DESC, e.number LIMIT ?
"""
_FIND_IN_POSTGRES = """
SELECT e.content FROM (
    SELECT f.entry AS entry, count(*) AS shared
    FROM unnest(?::text[]) AS w(word) JOIN flowloom_memory_words AS f ON f.words @@ w.word::tsquery GROUP BY f.entry
) AS found JOIN flowloom_memory_entries AS e ON e.number = found.entry
ORDER BY found.shared DESC, e.number LIMIT ?
"""


def _owned(owner: int, words: Iterable[str]) -> Iterator[str]:
    """Words as they stand in the index. They are of letters, digits and marks: nothing is an operator or a quote."""
    for word in words:
        if len(word) > _LONGEST:
            word = word[:_LONGEST] + hashlib.sha256(word.encode()).hexdigest()
        yield f"{owner}x{word}"


def _chunks(words: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for word in words:
        size += len(word.encode())
        if size > _CHUNK:
            yield chunk
            chunk, size = [], len(word.encode())
        chunk.append(word)
    if chunk:
        yield chunk


def _first_columns(rows: list[Any]) -> list[str]:
    return [row[0] for row in rows]
