"""Writes whose answer was lost: PostgreSQL has committed, the connection is gone, and the write is tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit import event, requests_of
from postgres_cut import LossyWay, lossy_way

from flowloom import (
    Event,
    EventActions,
    LlmAgent,
    PostgresMemoryService,
    PostgresSessionService,
    Runner,
    Session,
    SqliteSessionService,
)
from flowloom.errors import AlreadyExistsError, StorageError
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import ScriptedModel, call

WHO: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s1"}
Stores = tuple[PostgresSessionService, PostgresSessionService, LossyWay]


@pytest.fixture
async def stores(postgres_dsn: str) -> AsyncIterator[Stores]:
    """A service of which every other commit goes unanswered, one beside it, and the way to the server."""
    beside = PostgresSessionService(postgres_dsn)
    await beside.create_session(**{**WHO, "session_id": "first"})
    async with lossy_way(postgres_dsn) as (dsn, way):
        service = PostgresSessionService(dsn, max_connections=2)
        await service.get_session(**WHO)
        way.armed = True
        yield service, beside, way
        way.armed = False
        await service.close()
    await beside.close()


def said(text: str, **delta: Any) -> Event:
    made = event("agent", text)
    made.actions = EventActions(state_delta=delta)
    return made


async def get(service: SqlSessionService, session_id: str = "s1") -> Session:
    found = await service.get_session(**{**WHO, "session_id": session_id})
    assert found is not None
    return found


async def test_a_session_is_created_once_by_whoever_creates_it(stores: Stores) -> None:
    """A write that finds what it made itself has succeeded; what another has made is still `AlreadyExistsError`."""
    service, beside, way = stores
    made = await service.create_session(**WHO, state={"a": 1, "user:u": 1})
    assert (made.state, way.lost) == ({"a": 1, "user:u": 1}, 1)
    await service.append_event(made, said("x"))
    for store in (service, beside):
        with pytest.raises(AlreadyExistsError):
            await store.create_session(**WHO)
    assert [each.text for each in (await get(beside)).events] == ["x"]


async def test_an_append_brings_the_session_at_hand_up_to_date_once(stores: Stores) -> None:
    """Its events and its state, whether the event waited for company or not."""
    service, beside, way = stores
    session = await beside.create_session(**WHO)
    await service.append_event(session, said("one", n=1, **{"temp:t": 1}))
    await service.append_buffered(session, said("two", n=2))
    await service.append_event(session, said("three", m=3))
    await service.append_buffered(session, said("four", n=4))
    await service.flush()
    assert way.lost >= 3
    texts, state = ["one", "two", "three", "four"], {"n": 4, "m": 3}
    assert ([each.text for each in session.events], session.state) == (texts, {**state, "temp:t": 1})
    for found in (await get(service), await get(beside)):
        assert ([each.text for each in found.events], found.state) == (texts, state)


async def test_an_event_that_another_has_stored_is_not_applied(stores: Stores) -> None:
    """Only what this write has stored itself is news of it."""
    service, beside, _ = stores
    session = await beside.create_session(**WHO)
    made = said("x", n=1)
    await beside.append_event(await get(beside), made)
    await service.append_event(session, made)
    assert (session.events, session.state) == ([], {})


async def test_forks_and_rewinds_and_imports_happen_once(stores: Stores) -> None:
    """None of them fails for what it has done itself."""
    service, beside, way = stores
    session = await beside.create_session(**WHO)
    for number in range(3):
        await beside.append_event(session, said(str(number), n=number))
    fork = await service.fork(**WHO, new_session_id="f", up_to_event_id=session.events[1].id)
    assert ([each.text for each in fork.events], fork.state) == (["0", "1"], {"n": 1})
    with pytest.raises(AlreadyExistsError):
        await beside.fork(**WHO, new_session_id="f")
    await service.rewind(session, before_invocation_id=session.events[2].invocation_id)
    assert len((await get(beside)).events) == len(session.events) == 4
    moved = Session(id="moved", app_name="app", user_id="ann", state=session.state, events=session.events)
    assert len((await service.import_session(moved)).events) == 4
    assert way.lost >= 3


async def test_what_was_made_since_is_not_deleted(stores: Stores) -> None:
    """A session is deleted once; another of its name, made before the write is tried again, stays."""
    service, beside, way = stores
    await beside.create_session(**WHO)
    way.meanwhile = lambda: beside.create_session(**WHO, state={"new": 1})
    await service.delete_session(**WHO)
    assert (way.lost, way.meanwhile, (await get(beside)).state) == (1, None, {"new": 1})


async def test_a_fork_whose_source_was_deleted_since_is_there(stores: Stores) -> None:
    """What was made needs nothing any more."""
    service, beside, way = stores
    await beside.append_event(await beside.create_session(**WHO), said("x"))
    way.meanwhile = lambda: beside.delete_session(**WHO)
    fork = await service.fork(**WHO, new_session_id="f")
    assert (way.lost > 0, way.meanwhile, [each.text for each in fork.events]) == (True, None, ["x"])


async def test_what_came_since_is_not_changed_by_a_repeated_append(stores: Stores) -> None:
    """Neither the order of the log nor the state that a later event has set."""
    service, beside, way = stores
    session = await beside.create_session(**WHO)

    async def append_another() -> None:
        await beside.append_event(await get(beside), said("two", n=2))

    way.meanwhile = append_another
    await service.append_event(session, said("one", n=1))
    assert ([each.text for each in session.events], session.state) == (["one"], {"n": 1})
    for found in (await get(service), await get(beside)):
        assert ([each.text for each in found.events], found.state) == (["one", "two"], {"n": 2})
    await service.append_event(session, said("three"))
    assert [each.text for each in (await get(beside)).events] == ["one", "two", "three"]


async def test_a_run_sees_its_own_calls(stores: Stores) -> None:
    """The model is asked with the call and its result, and the session keeps its lease, whichever answers are lost."""
    service, beside, way = stores

    async def book(city: str) -> str:
        """Book."""
        return f"booked {city}"

    agent = LlmAgent(
        name="agent", model=ScriptedModel([call("book", city="Rome"), call("book", city="Oslo"), "Done."]), tools=[book]
    )
    runner = Runner(app_name="app", agent=agent, session_service=service, auto_create_session=True)
    result = await runner.run_to_result(user_id="ann", session_id="s1", new_message="Book.")
    assert (result.status, result.text) == ("final", "Done.")
    assert way.lost >= 4
    last = requests_of(agent)[-1].contents
    assert [
        (part.function_call and part.function_call.args) or (part.function_response and part.function_response.response)
        for content in last[1:]
        for part in content.parts or ()
    ] == [{"city": "Rome"}, {"result": "booked Rome"}, {"city": "Oslo"}, {"result": "booked Oslo"}]
    found = await get(beside)
    assert len({each.id for each in found.events}) == len(found.events) == 6


@pytest.mark.parametrize("stored", [True, False])
async def test_a_call_of_which_nobody_knows_whether_it_was_stored_is_answered(stored: bool, tmp_path: Path) -> None:
    """When the store gives up after a commit may have happened, the history is legal either way."""

    class Doubtful(SqliteSessionService):
        async def append_event(self, session: Session, event: Event) -> Event:
            if event.get_function_calls() and not doubted:
                doubted.append(event.id)
                if stored:
                    await super().append_event(await get(self), event)
                raise StorageError("The server is gone.")
            return await super().append_event(session, event)

    doubted: list[str] = []
    service = Doubtful(tmp_path / "a.db")
    agent = LlmAgent(name="agent", model=ScriptedModel([call("nap")]), tools=[nap])
    runner = Runner(app_name="app", agent=agent, session_service=service, auto_create_session=True)
    with pytest.raises(StorageError, match="gone"):
        await runner.run_to_result(user_id="ann", session_id="s1", new_message="Sleep.")
    events = (await get(service)).events
    assert [bool(each.get_function_calls()) for each in events] == [False, True, False, False]
    assert "error" in (events[2].get_function_responses()[0].response or {})
    assert events[3].error_code == "StorageError"
    await service.close()


async def nap() -> str:
    """Sleep."""
    return "slept"


async def test_memories_are_kept_once(postgres_dsn: str) -> None:
    """A memory whose writing was repeated is found once."""
    async with lossy_way(postgres_dsn) as (dsn, way):
        service = PostgresMemoryService(dsn)
        await service.search_memory(app_name="app", user_id="ann", query="x")
        way.armed = True
        session = Session(id="s1", app_name="app", user_id="ann", events=[said("the dog barks")])
        await service.add_session_to_memory(session)
        found = await service.search_memory(app_name="app", user_id="ann", query="dog")
        assert (len(found.memories), way.lost >= 1) == (1, True)
        await service.delete_memory(app_name="app", user_id="ann", memory_id=session.events[0].id)
        way.armed = False
        assert (await service.search_memory(app_name="app", user_id="ann", query="dog")).memories == []
        await service.close()
