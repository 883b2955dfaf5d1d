"""The store in memory, and what every store promises (cases, area 23; spec §19)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from kit import event, said, text

from flowloom import (
    AlreadyExistsError,
    Event,
    EventActions,
    GetSessionConfig,
    InMemorySessionService,
    Session,
    SessionNotFoundError,
)

WHO: dict[str, Any] = {"app_name": "app", "user_id": "ann"}


@pytest.fixture
def store() -> InMemorySessionService:
    return InMemorySessionService()


async def fetched(store: InMemorySessionService, session_id: str = "s1", **fields: Any) -> Session:
    found = await store.get_session(**{**WHO, "session_id": session_id, **fields})
    assert found is not None
    return found


async def test_a_session_is_created_with_a_given_or_a_made_id(store: InMemorySessionService) -> None:
    """Explicit id / generated."""
    assert (await store.create_session(**WHO, session_id="s1")).id == "s1"
    first, second = await store.create_session(**WHO), await store.create_session(**WHO)
    assert first.id
    assert first.id != second.id


async def test_a_second_session_of_one_id_is_refused(store: InMemorySessionService) -> None:
    """Duplicate | error."""
    await store.create_session(**WHO, session_id="s1")
    with pytest.raises(AlreadyExistsError, match="`s1`"):
        await store.create_session(**WHO, session_id="s1")


async def test_concurrent_creates_give_one_winner(store: InMemorySessionService) -> None:
    made = await asyncio.gather(
        *(store.create_session(**WHO, session_id="s1") for _ in range(10)), return_exceptions=True
    )
    assert sum(isinstance(each, Session) for each in made) == 1


async def test_a_session_is_its_users(store: InMemorySessionService) -> None:
    """Get: ok / missing / other user's id."""
    await store.create_session(**WHO, session_id="s1")
    assert (await fetched(store)).id == "s1"
    assert await store.get_session(**WHO, session_id="s2") is None
    assert await store.get_session(app_name="app", user_id="bob", session_id="s1") is None


async def test_a_part_of_the_log_can_be_asked_for(store: InMemorySessionService) -> None:
    """Recent N, after T, both | 3, 4, 2 events."""
    session = await store.create_session(**WHO, session_id="s1")
    for number in range(5):
        await store.append_event(session, event("root", str(number), timestamp=float(number)))

    async def texts(**config: Any) -> list[str]:
        return [each.text for each in (await fetched(store, config=GetSessionConfig(**config))).events]

    assert await texts(num_recent_events=3) == ["2", "3", "4"]
    assert await texts(after_timestamp=1) == ["1", "2", "3", "4"]
    assert await texts(num_recent_events=2, after_timestamp=1) == ["3", "4"]
    assert await texts(num_recent_events=0) == []


async def test_sessions_are_listed_and_deleted_by_user(store: InMemorySessionService) -> None:
    """List, delete | per user; delete respects user id."""
    await store.create_session(**WHO, session_id="s1")
    await store.create_session(app_name="app", user_id="bob", session_id="s1")
    await store.delete_session(app_name="app", user_id="bob", session_id="s1")
    listed = await store.list_sessions(app_name="app")
    assert [(each.user_id, each.id) for each in listed.sessions] == [("ann", "s1")]
    assert (await store.list_sessions(app_name="app", user_id="bob")).sessions == []
    assert (await fetched(store)).id == "s1"


async def test_appending_to_an_unknown_session_is_an_error(store: InMemorySessionService) -> None:
    with pytest.raises(SessionNotFoundError, match="`nope`"):
        await store.append_event(Session(id="nope", app_name="app", user_id="ann"), event("root", "x"))


async def test_what_is_appended_is_stored_and_partial_events_are_not(store: InMemorySessionService) -> None:
    """Ok / partial | stored / not stored."""
    session = await store.create_session(**WHO, session_id="s1")
    await store.append_event(session, event("root", "half", partial=True))
    await store.append_event(session, event("root", "whole"))
    assert [each.text for each in (await fetched(store)).events] == ["whole"]
    assert [each.text for each in session.events] == ["whole"]


async def test_appending_one_event_twice_stores_it_once(store: InMemorySessionService) -> None:
    session = await store.create_session(**WHO, session_id="s1")
    once = event("root", "x")
    await store.append_event(session, once)
    await store.append_event(session, once)
    assert len((await fetched(store)).events) == 1


async def test_all_fields_survive(store: InMemorySessionService) -> None:
    """Bytes, all fields, workflow fields | round trip."""
    session = await store.create_session(**WHO, session_id="s1")
    given = Event(
        author="root",
        content=said(types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png")), text("x")),
        actions=EventActions(state_delta={"a": 1}, artifact_delta={"f": 0}, escalate=True, agent_state={"step": 2}),
        branch="side.a",
        isolation_scope="t1",
        long_running_tool_ids=["c1"],
        custom_metadata={"k": "v"},
        usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=3),
        output={"o": 1},
    )
    await store.append_event(session, given)
    assert (await fetched(store)).events[0].to_wire() == given.to_wire()


async def test_state_has_the_reach_of_its_scope(store: InMemorySessionService) -> None:
    """App shared, user per user, session isolated, temp not persisted."""
    session = await store.create_session(**WHO, session_id="s1")
    delta = {"app:a": 1, "user:u": 2, "own": 3, "temp:t": 4}
    await store.append_event(session, event("root", "x", actions={"state_delta": delta}))
    assert session.state == delta
    assert (await fetched(store)).state == {"app:a": 1, "user:u": 2, "own": 3}
    assert (await store.create_session(**WHO, session_id="s2")).state == {"app:a": 1, "user:u": 2}
    assert (await store.create_session(app_name="app", user_id="bob", session_id="s1")).state == {"app:a": 1}
    assert (await store.create_session(app_name="other", user_id="ann", session_id="s1")).state == {}


async def test_the_callers_event_keeps_its_temporary_state(store: InMemorySessionService) -> None:
    """Caller's event keeps temp key, stored one loses it."""
    session = await store.create_session(**WHO, session_id="s1")
    given = event("root", "x", actions={"state_delta": {"temp:t": 1, "kept": 2}})
    await store.append_event(session, given)
    assert given.actions.state_delta == {"temp:t": 1, "kept": 2}
    assert (await fetched(store)).events[0].actions.state_delta == {"kept": 2}


async def test_state_of_a_fetched_session_is_the_callers_own(store: InMemorySessionService) -> None:
    """Changing a snapshot changes no other, and nothing in the store."""
    await store.create_session(**WHO, session_id="s1", state={"list": [1]})
    session = await fetched(store)
    session.state["list"].append(2)
    session.state["new"] = True
    assert (await fetched(store)).state == {"list": [1]}


async def test_two_writers_lose_no_event(store: InMemorySessionService) -> None:
    await store.create_session(**WHO, session_id="s1")
    first, second = await fetched(store), await fetched(store)
    for number in range(5):
        await store.append_event(first, event("a", str(number)))
        await store.append_event(second, event("b", str(number)))
    assert len((await fetched(store)).events) == 10


def test_synchronous_programs_need_no_event_loop(store: InMemorySessionService) -> None:
    created = store.create_session_sync(**WHO, session_id="s1", state={"a": 1})
    found = store.get_session_sync(**WHO, session_id="s1")
    assert found is not None
    assert (created.id, found.state) == ("s1", {"a": 1})
