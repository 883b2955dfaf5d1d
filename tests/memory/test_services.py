"""What all memory services do alike: in memory, on SQLite, on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import examples
from postgres_server import PostgresServer

from flowloom.errors import InputValidationError
from flowloom.events import Event
from flowloom.events.ids import new_id
from flowloom.memory import BaseMemoryService, InMemoryMemoryService, MemoryEntry, SearchMemoryResponse
from flowloom.memory.postgres import PostgresMemoryService
from flowloom.memory.sql import SqlMemoryService
from flowloom.memory.sqlite import SqliteMemoryService
from flowloom.sessions import Session

KINDS = ("memory", "sqlite", "postgres")


@pytest.fixture(scope="module")
def memory_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """A database for all tests of this module; each finds it empty."""
    with postgres_server.database() as dsn:
        yield dsn


@pytest.fixture(params=KINDS)
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseMemoryService]:
    """Each service in turn."""
    if request.param == "memory":
        yield InMemoryMemoryService()
        return
    if request.param == "sqlite":
        service: SqlMemoryService = SqliteMemoryService(tmp_path / "memory.db")
    else:
        dsn = request.getfixturevalue("memory_dsn")
        service = PostgresMemoryService(dsn)
    yield service
    await service.close()
    if request.param == "postgres":
        with psycopg.connect(dsn, options="-c client_min_messages=warning") as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")


def said(*texts: str, author: str = "user", **values: object) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text) for text in texts])
    return Event(author=author, content=content, **values)


def session_of(*events: Event, session_id: str = "s1", user_id: str = "ada", app_name: str = "app") -> Session:
    return Session(id=session_id, app_name=app_name, user_id=user_id, events=list(events))


def entry(text: str, **values: object) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **values)


def texts_of(response: SearchMemoryResponse) -> list[str]:
    return [" ".join(part.text or "" for part in memory.content.parts or ()) for memory in response.memories]


async def found(service: BaseMemoryService, query: str, user_id: str = "ada", app_name: str = "app") -> list[str]:
    return texts_of(await service.search_memory(app_name=app_name, user_id=user_id, query=query))


# -- searching ---------------------------------------------------------------------------------


async def test_an_event_is_found_by_a_word_it_shares_with_the_query(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("My cat is called Tibbles."), said("It rains.")))
    assert await found(service, "Which cat?") == ["My cat is called Tibbles."]


async def test_upper_case_and_punctuation_do_not_matter(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("TIBBLES, the cat!")))
    assert await found(service, "tibbles?") == ["TIBBLES, the cat!"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Ich wohne in Österreich", "ÖSTERREICH"),
        ("Die Straße ist lang", "STRASSE"),
        ("Моя кошка спит", "кошка"),
        ("मेरी बिल्ली", "बिल्ली"),
        ("我的猫很可爱", "猫"),
        ("القطة نائمة", "القطة"),
        ("cafe\u0301 au lait", "café"),
        ("room 101", "101"),
    ],
)
async def test_words_are_found_in_any_script(service: BaseMemoryService, text: str, query: str) -> None:
    await service.add_session_to_memory(session_of(said(text), said("nothing of it")))
    assert await found(service, query) == [text]


async def test_a_word_is_not_found_inside_another(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("concatenate")))
    assert await found(service, "cat") == []


async def test_the_best_match_comes_first(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("red"), said("red green blue"), said("red green")))
    assert await found(service, "red green blue") == ["red green blue", "red green", "red"]


async def test_equal_matches_stay_in_the_order_they_were_remembered(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("b cat"), said("a cat"), said("c cat")))
    assert await found(service, "cat") == ["b cat", "a cat", "c cat"]


async def test_a_repeated_word_counts_once(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("cat cat cat"), said("cat dog")))
    assert await found(service, "cat dog") == ["cat dog", "cat cat cat"]


@pytest.mark.parametrize("query", ["", "  ", "?!"])
async def test_a_query_without_words_finds_nothing(service: BaseMemoryService, query: str) -> None:
    await service.add_session_to_memory(session_of(said("anything?!")))
    assert await found(service, query) == []


async def test_a_user_of_whom_nothing_is_known_has_no_memories(service: BaseMemoryService) -> None:
    assert await found(service, "cat") == []


async def test_sessions_of_one_user_are_searched_together(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("a cat"), session_id="s1"))
    await service.add_session_to_memory(session_of(said("my cat"), session_id="s2"))
    assert await found(service, "cat") == ["a cat", "my cat"]


@pytest.mark.parametrize("other", [{"user_id": "bob"}, {"app_name": "other"}])
async def test_memories_are_seen_by_no_other_user_or_app(service: BaseMemoryService, other: dict[str, str]) -> None:
    await service.add_session_to_memory(session_of(said("a cat")))
    assert await found(service, "cat", **other) == []


# -- what is remembered ------------------------------------------------------------------------


async def test_a_memory_says_who_said_it_and_when(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("a cat", author="zoo_agent", id="e1", timestamp=0.5)))
    response = await service.search_memory(app_name="app", user_id="ada", query="cat")
    (memory,) = response.memories
    assert (memory.id, memory.author, memory.timestamp) == ("e1", "zoo_agent", "1970-01-01T00:00:00.500000+00:00")


async def test_a_text_with_half_of_a_surrogate_pair_is_remembered(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("my \ud83d cat")))
    (text,) = await found(service, "CAT")
    assert (text[:3], text[-4:]) == ("my ", " cat")


async def test_all_text_parts_of_an_event_are_searched(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("a", "cat")))
    assert await found(service, "cat") == ["a cat"]


async def test_partial_events_are_not_remembered(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("a cat", partial=True)))
    assert await found(service, "cat") == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        types.Content(role="model", parts=[]),
        types.Content(role="model", parts=[types.Part(text=" ")]),
        types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="cat"))]),
        types.Content(role="model", parts=[types.Part(text="cat", thought=True)]),
    ],
)
async def test_events_without_spoken_text_are_not_remembered(
    service: BaseMemoryService, content: types.Content | None
) -> None:
    await service.add_session_to_memory(session_of(Event(author="agent", content=content)))
    assert await found(service, "cat") == []


async def test_adding_a_session_again_adds_only_what_is_new(service: BaseMemoryService) -> None:
    first, second = said("a cat"), said("my cat")
    await service.add_session_to_memory(session_of(first))
    await service.add_session_to_memory(session_of(first, second))
    assert await found(service, "cat") == ["a cat", "my cat"]


async def test_equal_event_ids_of_different_sessions_are_different_events(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("a cat", id="e1"), session_id="s1"))
    await service.add_session_to_memory(session_of(said("my cat", id="e1"), session_id="s2"))
    assert await found(service, "cat") == ["a cat", "my cat"]


async def test_single_events_can_be_remembered_before_their_session(service: BaseMemoryService) -> None:
    event = said("a cat")
    await service.add_events_to_memory(app_name="app", user_id="ada", session_id="s1", events=[event])
    await service.add_session_to_memory(session_of(event, said("my cat")))
    assert await found(service, "cat") == ["a cat", "my cat"]


async def test_metadata_of_the_call_joins_that_of_the_event(service: BaseMemoryService) -> None:
    event = said("a cat", custom_metadata={"a": 1, "b": 1})
    await service.add_events_to_memory(app_name="app", user_id="ada", events=[event], custom_metadata={"b": 2})
    response = await service.search_memory(app_name="app", user_id="ada", query="cat")
    assert response.memories[0].custom_metadata == {"a": 1, "b": 2}


async def test_changing_a_found_memory_does_not_change_what_is_remembered(service: BaseMemoryService) -> None:
    event = said("a cat", custom_metadata={"tags": ["pet"]})
    await service.add_session_to_memory(session_of(event))
    (memory,) = (await service.search_memory(app_name="app", user_id="ada", query="cat")).memories
    assert memory.content.parts
    memory.content.parts[0].text = "a dog"
    memory.custom_metadata["tags"].append("dog")
    memory.author = "nobody"
    (again,) = (await service.search_memory(app_name="app", user_id="ada", query="cat")).memories
    assert (again.author, again.custom_metadata) == ("user", {"tags": ["pet"]})
    assert again.content == event.content == said("a cat").content


# -- entries -----------------------------------------------------------------------------------


async def test_an_entry_of_ones_own_is_found_with_all_it_says(service: BaseMemoryService) -> None:
    mine = entry("likes tea", id="m1", author="user", timestamp="2024-01-01", custom_metadata={"a": 1})
    await service.add_memory(app_name="app", user_id="ada", memories=[mine], custom_metadata={"b": 2})
    response = await service.search_memory(app_name="app", user_id="ada", query="tea")
    assert response.memories == [mine.model_copy(update={"custom_metadata": {"a": 1, "b": 2}})]


async def test_an_entry_without_an_id_gets_one(service: BaseMemoryService) -> None:
    mine = entry("likes tea")
    await service.add_memory(app_name="app", user_id="ada", memories=[mine, entry("hates tea")])
    ids = [m.id for m in (await service.search_memory(app_name="app", user_id="ada", query="tea")).memories]
    assert all(ids)
    assert len(set(ids)) == 2
    assert mine.id is None


async def test_an_entry_with_a_known_id_replaces_the_old_one_in_its_place(service: BaseMemoryService) -> None:
    entries = [entry("likes tea", id="m1"), entry("drinks tea", id="m2")]
    await service.add_memory(app_name="app", user_id="ada", memories=entries)
    await service.add_memory(app_name="app", user_id="ada", memories=[entry("hates tea", id="m1")])
    assert await found(service, "tea") == ["hates tea", "drinks tea"]


async def test_an_entry_without_text_is_refused_with_all_others(service: BaseMemoryService) -> None:
    with pytest.raises(InputValidationError, match="no text"):
        await service.add_memory(app_name="app", user_id="ada", memories=[entry("tea"), entry("")])
    assert await found(service, "tea") == []


@pytest.mark.parametrize("owner", [{"app_name": "", "user_id": "ada"}, {"app_name": "app", "user_id": ""}])
async def test_a_memory_of_nobody_is_refused(service: BaseMemoryService, owner: dict[str, str]) -> None:
    with pytest.raises(InputValidationError):
        await service.add_memory(memories=[entry("tea")], **owner)


# -- forgetting --------------------------------------------------------------------------------


async def test_a_memory_is_forgotten_by_its_id(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session_of(said("a cat", id="e1"), said("my cat", id="e2")))
    await service.delete_memory(app_name="app", user_id="ada", memory_id="e1")
    assert await found(service, "cat") == ["my cat"]


async def test_what_was_forgotten_is_not_brought_back_by_its_session(service: BaseMemoryService) -> None:
    session = session_of(said("a cat", id="e1"))
    await service.add_session_to_memory(session)
    await service.delete_memory(app_name="app", user_id="ada", memory_id="e1")
    await service.add_session_to_memory(session)
    assert await found(service, "cat") == []


async def test_what_was_forgotten_can_be_remembered_again_on_purpose(service: BaseMemoryService) -> None:
    await service.add_memory(app_name="app", user_id="ada", memories=[entry("likes tea", id="m1")])
    await service.delete_memory(app_name="app", user_id="ada", memory_id="m1")
    await service.add_memory(app_name="app", user_id="ada", memories=[entry("likes tea", id="m1")])
    assert await found(service, "tea") == ["likes tea"]


async def test_forgetting_what_is_not_remembered_is_fine(service: BaseMemoryService) -> None:
    await service.delete_memory(app_name="app", user_id="ada", memory_id="e1")
    await service.add_session_to_memory(session_of(said("a cat")))
    await service.delete_memory(app_name="app", user_id="ada", memory_id="no such id")
    assert await found(service, "cat") == ["a cat"]


# -- laws --------------------------------------------------------------------------------------

WORDS = [
    *(
        "cat",
        "CAT",
        "dog",
        "tea",
        "Straße",
        "STRASSE",
        "猫",
        "我的猫",
        "बिल्ली",
        "cafe\u0301",
        "x" * 300,
        "x" * 301,
        "²",
    ),
    *("cat*", '"cat', "'", "cat OR dog", "NOT", "NEAR(cat, 2)", "cat:1", "a & b | !c", "<->", "{words}:", "--", "%s ?"),
    *("12xcat", "\0"),
]
TEXTS = st.one_of(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), st.text(max_size=8))
IDS = st.sampled_from(["e1", "e2", "e3", "", "/", "'"])
STEPS = st.one_of(
    st.tuples(st.just("session"), st.sampled_from(["s1", "s2", "", "/"]), st.lists(st.tuples(IDS, TEXTS), max_size=3)),
    st.tuples(st.just("events"), st.none(), st.lists(st.tuples(IDS, TEXTS), max_size=3)),
    st.tuples(st.just("entry"), IDS, TEXTS.filter(str.strip)),
    st.tuples(st.just("forget"), IDS, st.none()),
)


async def do(service: BaseMemoryService, step: tuple[str, Any, Any], where: dict[str, str]) -> None:
    kind, name, what = step
    if kind == "session":
        events = [said(text, id=event_id, timestamp=1.0) for event_id, text in what]
        await service.add_session_to_memory(session_of(*events, session_id=name, **where))
    elif kind == "events":
        events = [said(text, id=event_id, timestamp=1.0) for event_id, text in what]
        await service.add_events_to_memory(events=events, custom_metadata={"a": None}, **where)
    elif kind == "entry":
        await service.add_memory(memories=[entry(what, id=name or None)], **where)
    else:
        await service.delete_memory(memory_id=name, **where)


@pytest.fixture(params=KINDS[1:])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlMemoryService]:
    """A service that outlives the examples of a law."""
    service = (
        SqliteMemoryService(tmp_path / "memory.db")
        if request.param == "sqlite"
        else PostgresMemoryService(request.getfixturevalue("memory_dsn"))
    )
    yield service
    asyncio.run(service.close())


def found_alike(mine: SearchMemoryResponse, theirs: SearchMemoryResponse) -> bool:
    """Whether two services found the same; an id that a service made up is its own."""
    for response in (mine, theirs):
        for each in response.memories:
            each.id = each.id if each.id in ("e1", "e2", "e3", "", "/", "'") else "made up"
    return mine.memories == theirs.memories


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=8), queries=st.lists(TEXTS, min_size=1, max_size=4))
def test_every_service_finds_what_the_one_in_memory_finds(
    other: SqlMemoryService, steps: list[tuple[str, Any, Any]], queries: list[str]
) -> None:
    async def story() -> None:
        where = {"app_name": new_id(), "user_id": "ada"}
        memory = InMemoryMemoryService()
        for step in steps:
            await do(memory, step, where)
            await do(other, step, where)
        for query in [*queries, " ".join(WORDS)]:
            mine = await memory.search_memory(query=query, **where)
            theirs = await other.search_memory(query=query, **where)
            assert found_alike(mine, theirs), query

    asyncio.run(story())


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text("ab ", max_size=6), max_size=8), cuts=st.lists(st.integers(0, 8), max_size=4))
def test_adding_a_growing_session_bit_by_bit_is_adding_it_once(
    other: SqlMemoryService, texts: list[str], cuts: list[int]
) -> None:
    events = [said(text, id=str(index)) for index, text in enumerate(texts)]

    async def story() -> None:
        app_name = new_id()
        once = InMemoryMemoryService()
        await once.add_session_to_memory(session_of(*events, app_name=app_name))
        for service in (InMemoryMemoryService(), other):
            for cut in [*sorted(cuts), len(events)]:
                await service.add_session_to_memory(session_of(*events[:cut], app_name=app_name))
            for query in ("a", "b", "a b aa"):
                assert await found(service, query, app_name=app_name) == await found(once, query, app_name=app_name)

    asyncio.run(story())
