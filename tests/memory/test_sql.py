"""What only memories in a database do: they outlive the process, are shared by several, and cost what is new."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.genai import types

from flowloom.errors import ConfigurationError, StorageError
from flowloom.events import Event
from flowloom.memory import MemoryEntry
from flowloom.memory.postgres import PostgresMemoryService
from flowloom.memory.sql import SqlMemoryService
from flowloom.memory.sqlite import SqliteMemoryService
from flowloom.sessions import Session

ADA = {"app_name": "app", "user_id": "ada"}


class Place:
    """A database, and the services that a test opens on it."""

    def __init__(self, kind: str, where: str) -> None:
        self.kind = kind
        self.where = where
        self.opened: list[SqlMemoryService] = []

    def open(self, max_results: int | None = None) -> SqlMemoryService:
        kind = SqliteMemoryService if self.kind == "sqlite" else PostgresMemoryService
        self.opened.append(kind(self.where, max_results=max_results))
        return self.opened[-1]


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    sqlite = request.param == "sqlite"
    place = Place(request.param, str(tmp_path / "m.db") if sqlite else request.getfixturevalue("postgres_dsn"))
    yield place
    for service in place.opened:
        await service.close()


def said(text: str, event_id: str) -> Event:
    return Event(author="user", id=event_id, content=types.Content(role="user", parts=[types.Part(text=text)]))


def session_of(*texts: str, session_id: str = "s1") -> Session:
    return Session(id=session_id, events=[said(text, f"e{number}") for number, text in enumerate(texts)], **ADA)


async def found(service: SqlMemoryService, query: str) -> list[str]:
    response = await service.search_memory(query=query, **ADA)
    return [str(part.text) for memory in response.memories for part in memory.content.parts or ()]


async def test_memories_outlive_the_service(place: Place) -> None:
    service = place.open()
    await service.add_session_to_memory(session_of("a cat", "my cat"))
    await service.delete_memory(memory_id="e0", **ADA)
    await service.close()
    assert await found(place.open(), "cat") == ["my cat"]


async def test_what_another_service_has_forgotten_stays_forgotten(place: Place) -> None:
    await place.open().add_session_to_memory(session_of("a cat"))
    await place.open().delete_memory(memory_id="e0", **ADA)
    again = place.open()
    await again.add_session_to_memory(session_of("a cat", "my cat"))
    assert await found(again, "cat") == ["my cat"]


async def test_services_that_add_a_session_at_once_remember_it_once(place: Place) -> None:
    services = [place.open() for _ in range(4)]
    session = session_of(*(f"cat {number}" for number in range(20)))
    await asyncio.gather(*(service.add_session_to_memory(session) for service in services for _ in range(2)))
    assert sorted(await found(services[0], "cat")) == sorted(f"cat {number}" for number in range(20))


async def test_a_long_session_that_another_service_has_added_is_remembered_once(place: Place) -> None:
    session = session_of(*(f"cat {number}" for number in range(120)))
    await place.open().add_session_to_memory(session)
    session.events.append(said("last cat", "e120"))
    again = place.open()
    await again.add_session_to_memory(session)
    assert await found(again, "cat") == [*(f"cat {number}" for number in range(120)), "last cat"]


async def test_services_that_replace_an_entry_at_once_leave_one(place: Place) -> None:
    services = [place.open() for _ in range(4)]
    entries = [
        MemoryEntry(id="m", content=types.Content(parts=[types.Part(text=f"cat {number}")])) for number in range(20)
    ]
    await asyncio.gather(
        *(services[number % 4].add_memory(memories=[entry], **ADA) for number, entry in enumerate(entries)),
        *(service.delete_memory(memory_id="m", **ADA) for service in services),
    )
    await services[0].add_memory(memories=[entries[0]], **ADA)
    await services[1].add_memory(
        memories=[MemoryEntry(id="other", content=types.Content(parts=[types.Part(text="cat 0")]))], **ADA
    )
    assert await found(services[0], "cat 0") == ["cat 0", "cat 0"]
    assert await found(services[0], " ".join(map(str, range(1, 20)))) == []


async def test_a_session_with_nothing_new_costs_no_look_at_the_database(place: Place) -> None:
    service = place.open()
    session = session_of("a cat", "my cat")
    await service.add_session_to_memory(session)
    await service.close()  # whatever uses the database now is an error
    await service.add_session_to_memory(session)
    await service.add_session_to_memory(session_of("a cat", "my cat"))
    with pytest.raises(StorageError):
        await service.add_session_to_memory(session_of("a cat", "my cat", "the cat"))


async def test_a_session_that_was_cut_short_or_changed_is_looked_at_whole(place: Place) -> None:
    service = place.open()
    await service.add_session_to_memory(session_of("a cat", "my cat", "the cat"))
    shorter = session_of("a cat")
    shorter.events.append(said("new cat", "e9"))
    await service.add_session_to_memory(shorter)
    longer = session_of("a cat", "my cat")
    longer.events[1:] = [said("other cat", "e7"), said("last cat", "e8")]
    await service.add_session_to_memory(longer)
    assert await found(service, "cat") == ["a cat", "my cat", "the cat", "new cat", "other cat", "last cat"]


async def test_what_could_not_be_added_is_added_the_next_time(tmp_path: Path) -> None:
    service = SqliteMemoryService(tmp_path / "missing" / "m.db")
    with pytest.raises(StorageError, match="missing"):
        await service.add_session_to_memory(session_of("a cat"))
    (tmp_path / "missing").mkdir()
    await service.add_session_to_memory(session_of("a cat"))
    assert await found(service, "cat") == ["a cat"]
    await service.close()


async def test_a_search_gives_the_best_up_to_its_limit(place: Place) -> None:
    service = place.open(max_results=2)
    await service.add_session_to_memory(session_of("cat", "cat dog", "dog", "cat dog tea"))
    assert await found(service, "cat dog tea") == ["cat dog tea", "cat dog"]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ConfigurationError, match="max_results"):
        SqliteMemoryService(":memory:", max_results=limit)


async def test_a_book_is_found_by_any_of_its_words(place: Place) -> None:
    service = place.open()
    book = " ".join(f"word{number}{'x' * 40}" for number in range(40_000))
    await service.add_session_to_memory(session_of(f"aardvark {book} zulu", "zulu"))
    for query in ("aardvark zulu", f"zulu word39999{'x' * 40}"):
        assert [len(text) > 10 for text in await found(service, query)] == [True, False]
    await service.delete_memory(memory_id="e0", **ADA)
    assert await found(service, "aardvark zulu") == ["zulu"]


async def test_words_of_any_length_are_found_and_told_apart(place: Place) -> None:
    service = place.open()
    words = ["猫" + "ä" * length for length in (199, 200, 201, 3_000, 100_000, 100_001)]
    await service.add_session_to_memory(session_of(*words))
    for word in words:
        assert await found(service, word[1:]) == [word]


async def test_a_query_may_have_thousands_of_words(place: Place) -> None:
    service = place.open()
    await service.add_session_to_memory(session_of("a cat"))
    assert await found(service, " ".join(map(str, range(5_000))) + " cat") == ["a cat"]


async def test_what_one_user_remembers_costs_no_other_user_a_look(tmp_path: Path) -> None:
    """The words of the index have their owner before them."""
    service = SqliteMemoryService(tmp_path / "m.db")
    await service.add_session_to_memory(session_of("cat"))
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="cat")]))
    await service.add_memory(app_name="app", user_id="bob", memories=[entry])
    await service.close()
    connection = sqlite3.connect(tmp_path / "m.db")
    connection.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, flowloom_memory_words, row)")
    assert connection.execute("SELECT term, doc FROM v ORDER BY term").fetchall() == [("1xcat", 1), ("2xcat", 1)]
    connection.close()


async def test_memories_in_memory_end_with_the_service() -> None:
    service = SqliteMemoryService(":memory:")
    await service.add_session_to_memory(session_of("a cat"))
    assert await found(service, "cat") == ["a cat"]
    await service.close()


async def test_a_damaged_database_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_bytes(b"no database " * 1000)
    service = SqliteMemoryService(tmp_path / "m.db")
    with pytest.raises(StorageError, match=r"m\.db"):
        await service.search_memory(query="cat", **ADA)
    with contextlib.suppress(StorageError):
        await service.close()
