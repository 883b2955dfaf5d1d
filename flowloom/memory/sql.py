"""`SqlMemoryService`: memories in a SQL database, found by its full-text index (spec §20.2)."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flowloom.errors import ConfigurationError
from flowloom.events.event import Event
from flowloom.events.json_data import without_halves
from flowloom.memory.entries import (
    MemoryEntry,
    Metadata,
    SearchMemoryResponse,
    check_owner,
    entry_of,
    is_memorable,
    own_entries,
    text_of,
    words_of,
)
from flowloom.memory.service import BaseMemoryService
from flowloom.memory.sql_words import PostgresWords, SqliteWords, WordIndex
from flowloom.sql import Connection, Database, Schema

if TYPE_CHECKING:
    from flowloom.sessions import Session

_SESSIONS = 1_000
"""Of how many sessions a service knows what it has remembered already."""
_FEW = 50
"""Up to how many events are asked for one by one, rather than all of their session."""
_UNLIMITED = 2**31

_Row = tuple[str, str, frozenset[str]]
"""An entry's id, its JSON, its words."""


def _tables(number: str, owner: str) -> list[str]:
    return [
        f"CREATE TABLE flowloom_memory_owners (id {number}, app_name TEXT NOT NULL, user_id TEXT NOT NULL, "
        "UNIQUE (app_name, user_id))",
        f"CREATE TABLE flowloom_memory_entries (number {number}, owner {owner} NOT NULL REFERENCES "
        "flowloom_memory_owners, session TEXT NOT NULL, id TEXT NOT NULL, content TEXT, UNIQUE (owner, session, id))",
        "CREATE INDEX flowloom_memory_entries_of_id ON flowloom_memory_entries (owner, id)",
    ]


_SCHEMA = Schema(
    "memory",
    {
        "sqlite": [[*_tables("INTEGER PRIMARY KEY", "INTEGER"), *SqliteWords.steps[0]]],
        "postgres": [
            [*_tables("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BIGINT"), *PostgresWords.steps[0]],
        ],
    },
)
_OWNER = (  # an update that changes nothing locks the row: what is changed of one owner is changed one by one
    "INSERT INTO flowloom_memory_owners (app_name, user_id) VALUES (?, ?) "
    "ON CONFLICT (app_name, user_id) DO UPDATE SET app_name = excluded.app_name RETURNING id"
)
_KNOWN_OWNER = "SELECT id FROM flowloom_memory_owners WHERE app_name = ? AND user_id = ?"
_KNOWN_IDS = "SELECT id FROM flowloom_memory_entries WHERE owner = ? AND session = ?"
_OF_ID = "SELECT number FROM flowloom_memory_entries WHERE owner = ? AND id = ? ORDER BY number"
_ADD = (
    "INSERT INTO flowloom_memory_entries (owner, session, id, content) VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING RETURNING number"
)
_CHANGE = "UPDATE flowloom_memory_entries SET content = ? WHERE number = ?"


class SqlMemoryService(BaseMemoryService):
    """Keeps memories in a database, and finds the same ones in the same order as `InMemoryMemoryService`.

    A query is words and nothing else: operators and quotes of the database mean nothing in it. Adding a session again
    looks only at the events that came since this service added it last. `database` is closed with the service;
    `max_results` is how many memories a search gives at most (None: all that share a word with the query).

    Raises `ConfigurationError` for a `max_results` below 1. Every method raises `StorageError` when the database cannot
    be used.
    """

    def __init__(self, database: Database, *, max_results: int | None = None) -> None:
        if max_results is not None and max_results < 1:
            raise ConfigurationError(f"`max_results` is at least 1, or None for no limit; not {max_results}.")
        self._database = database
        self._limit = _UNLIMITED if max_results is None else max_results
        self._words: WordIndex = SqliteWords() if database.dialect == "sqlite" else PostgresWords()
        self._added: OrderedDict[tuple[str, str, str], tuple[int, str]] = OrderedDict()

    async def close(self) -> None:
        """Let go of the database's threads and connections."""
        await self._database.close()

    async def add_session_to_memory(self, session: Session) -> None:
        key = (session.app_name, session.user_id, session.id)
        events = list(session.events)
        count, last = self._added.get(key, (0, ""))
        done = count if 0 < count <= len(events) and events[count - 1].id == last else 0
        if done == len(events) > 0:
            return
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=events[done:], session_id=session.id
        )
        if events:
            self._added[key] = (len(events), events[-1].id)
            self._added.move_to_end(key)
            if len(self._added) > _SESSIONS:
                self._added.popitem(last=False)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Metadata = None,
    ) -> None:
        check_owner(app_name, user_id)
        session = "" if session_id is None else f"/{session_id}"
        memorable = [event for event in events if is_memorable(event)]
        if not memorable:
            return

        def new(connection: Connection) -> list[_Row]:
            owner = _known_owner(connection, app_name, user_id)
            known = set[str]() if owner is None else _known_ids(connection, owner, session, memorable)
            return [_row_of(entry_of(event, custom_metadata)) for event in memorable if event.id not in known]

        def add(connection: Connection) -> None:
            owner = _owner(connection, app_name, user_id)
            for row in rows:
                self._add(connection, owner, session, row)

        await self._ready()
        rows = await self._database.read(new)
        if rows:
            await self._write(add, app_name, user_id)

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Metadata = None
    ) -> None:
        """Remember entries; one with the id of an entry that is there replaces it.

        Raises `InputValidationError` for an entry without text, which no search could find; none is added then.
        """
        rows = [_row_of(entry) for entry in own_entries(memories, custom_metadata)]
        check_owner(app_name, user_id)

        def put(connection: Connection) -> None:
            owner = _owner(connection, app_name, user_id)
            for row in rows:
                there = connection.execute(_OF_ID, (owner, row[0])).fetchone()
                if there is None:
                    self._add(connection, owner, "", row)
                else:
                    self._change(connection, there[0], row[1])
                    self._words.add(connection, owner, there[0], row[2])

        await self._ready()
        await self._write(put, app_name, user_id)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        words = sorted(words_of(query))

        def find(connection: Connection) -> list[MemoryEntry]:
            owner = _known_owner(connection, app_name, user_id)
            found = [] if owner is None else self._words.find(connection, owner, words, self._limit)
            return [MemoryEntry.model_validate_json(content) for content in found]

        if not words:
            return SearchMemoryResponse()
        await self._ready()
        return SearchMemoryResponse(memories=await self._database.read(find))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """Forget the entries of that id. Adding their session again does not bring them back."""

        def forget(connection: Connection) -> None:
            if _known_owner(connection, app_name, user_id) is None:
                return
            owner = _owner(connection, app_name, user_id)
            for row in connection.execute(_OF_ID, (owner, memory_id)).fetchall():
                self._change(connection, row[0], None)

        await self._ready()
        await self._write(forget, app_name, user_id)

    async def _ready(self) -> None:
        await _SCHEMA.ensure(self._database)

    async def _write(self, work: Callable[[Connection], None], app_name: str, user_id: str) -> None:
        await self._database.write(work, lane=("memory", app_name, user_id))

    def _add(self, connection: Connection, owner: int, session: str, row: _Row) -> None:
        entry_id, content, words = row
        added = connection.execute(_ADD, (owner, session, entry_id, content)).fetchone()
        if added is not None:  # another process may have been here first
            self._words.add(connection, owner, added[0], words)

    def _change(self, connection: Connection, number: int, content: str | None) -> None:
        """Put other content in an entry's place; None forgets it, and leaves the place taken."""
        connection.execute(_CHANGE, (content, number))
        self._words.remove(connection, number)


def _row_of(entry: MemoryEntry) -> _Row:
    content = without_halves(json.dumps(entry.to_wire(), ensure_ascii=False))
    return str(entry.id), content, words_of(text_of(entry.content))


def _owner(connection: Connection, app_name: str, user_id: str) -> int:
    return connection.execute(_OWNER, (app_name, user_id)).fetchone()[0]


def _known_ids(connection: Connection, owner: int, session: str, events: Sequence[Event]) -> set[str]:
    """Which of these events are remembered, or were and are forgotten."""
    asked = [event.id for event in events] if len(events) <= _FEW else []
    some = f" AND id IN ({', '.join('?' * len(asked))})" if asked else ""
    return {row[0] for row in connection.execute(_KNOWN_IDS + some, (owner, session, *asked)).fetchall()}


def _known_owner(connection: Connection, app_name: str, user_id: str) -> int | None:
    row = connection.execute(_KNOWN_OWNER, (app_name, user_id)).fetchone()
    return None if row is None else row[0]
