"""The store in memory: what every store promises, and what is its own (cases, area 23; spec §19)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit import event

from flowloom import (
    BaseSessionService,
    Event,
    InMemorySessionService,
    InputValidationError,
    Session,
    SessionNotFoundError,
)
from flowloom.errors import AlreadyExistsError
from flowloom.sessions import ListSessionsResponse
from flowloom.testing.suites import SessionServiceSuite

WHO: dict[str, Any] = {"app_name": "app", "user_id": "ann"}


class TestEveryStoresRules(SessionServiceSuite):
    """Create, get, list, delete, append; partial events, repeats, scopes, two writers, round trips."""

    keeps_initial_state = True

    def make_service(self) -> InMemorySessionService:
        return InMemorySessionService()


class PlainService(BaseSessionService):
    """What somebody else's service has to define, and nothing more."""

    def __init__(self) -> None:
        self._inner = InMemorySessionService()

    async def create_session(self, **named: Any) -> Session:
        return await self._inner.create_session(**named)

    async def get_session(self, **named: Any) -> Session | None:
        return await self._inner.get_session(**named)

    async def list_sessions(self, **named: Any) -> ListSessionsResponse:
        return await self._inner.list_sessions(**named)

    async def delete_session(self, **named: Any) -> None:
        await self._inner.delete_session(**named)

    async def append_event(self, session: Session, event: Event) -> Event:
        return await self._inner.append_event(session, event)


class TestDefaultsKeepTheRules(SessionServiceSuite):
    """A service that defines the five operations alone has the others."""

    def make_service(self) -> PlainService:
        return PlainService()


@pytest.fixture
def store() -> InMemorySessionService:
    return InMemorySessionService()


async def test_a_refused_id_is_named(store: InMemorySessionService) -> None:
    """Duplicate | error."""
    await store.create_session(**WHO, session_id="s1")
    with pytest.raises(AlreadyExistsError, match="`s1`"):
        await store.create_session(**WHO, session_id="s1")


async def test_a_session_that_is_missing_is_named(store: InMemorySessionService) -> None:
    with pytest.raises(SessionNotFoundError, match="`nope`"):
        await store.append_event(Session(id="nope", app_name="app", user_id="ann"), event("root", "x"))


@pytest.mark.parametrize("missing", WHO)
async def test_a_session_needs_an_app_and_a_user(store: InMemorySessionService, missing: str) -> None:
    with pytest.raises(InputValidationError, match="empty"):
        await store.create_session(**{**WHO, missing: ""})


def test_synchronous_programs_need_no_event_loop(store: InMemorySessionService) -> None:
    created = store.create_session_sync(**WHO, session_id="s1", state={"a": 1})
    found = store.get_session_sync(**WHO, session_id="s1")
    assert found is not None
    assert (created.id, found.state) == ("s1", {"a": 1})


class Slow(InMemorySessionService):
    """One of somebody's own, which does something else before it appends."""

    async def append_event(self, session: Session, event: Event) -> Event:
        await asyncio.sleep(0)
        return await super().append_event(session, event)


ANSWERS_OF_SLOW_STORES = """
import asyncio
from sessions.test_in_memory import WHO, Slow
from flowloom import Event

async def main():
    store = Slow()
    sessions = [await store.create_session(**WHO, session_id=each) for each in ("s1", "s2", "s3")]
    answers = [store.append_answer(each, Event(author="user", id="e1")) for each in sessions]
    print(len(await asyncio.gather(*answers)))

asyncio.run(main())
"""


def test_a_store_that_takes_its_time_takes_answers_all_the_same() -> None:
    """A process of its own, which can be ended: an event loop that waits for itself never comes back."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS_OF_SLOW_STORES],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
        cwd=tests,
    )
    assert done.stdout == "3\n"
