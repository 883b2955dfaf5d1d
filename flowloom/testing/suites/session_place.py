"""Where the rules of session services are tried: a store, an app of the test's own, and users in it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from flowloom.errors import SessionNotFoundError
from flowloom.events import Event, EventActions
from flowloom.events.parts import content_of, text_part
from flowloom.sessions import BaseSessionService, GetSessionConfig, Session
from flowloom.testing.suites.loop import Suite


@dataclass(slots=True)
class Place:
    """A store, seen from one app. Apps are named anew for each test, so that a shared database serves as well."""

    service: BaseSessionService
    app: str = field(default_factory=lambda: f"suite-{uuid4().hex}")
    user: str = "ann"

    def other(self, app: str | None = None, user: str | None = None) -> Place:
        """The same store, seen from another app or by another user."""
        return Place(self.service, app or self.app, user or self.user)

    async def create(self, session_id: str | None = None, state: dict[str, Any] | None = None) -> Session:
        return await self.service.create_session(
            app_name=self.app, user_id=self.user, session_id=session_id, state=state
        )

    async def find(self, session_id: str, config: GetSessionConfig | None = None) -> Session | None:
        return await self.service.get_session(
            app_name=self.app, user_id=self.user, session_id=session_id, config=config
        )

    async def get(self, session_id: str = "s1", **config: Any) -> Session:
        """A session that has to be there."""
        found = await self.find(session_id, GetSessionConfig(**config) if config else None)
        assert found is not None, f"`get_session` gave None for session `{session_id}`, which was created before."
        return found

    async def delete(self, session_id: str) -> None:
        await self.service.delete_session(app_name=self.app, user_id=self.user, session_id=session_id)

    async def listed(self, *, all_users: bool = False) -> list[Session]:
        user = None if all_users else self.user
        return (await self.service.list_sessions(app_name=self.app, user_id=user)).sessions

    async def append(self, session: Session, *texts: str, **delta: Any) -> Event:
        """Append an event for each text; the last one is returned. `delta` is the change of state of each."""
        event = said("")
        for text in texts:
            event = await self.service.append_event(session, said(text, delta))
        return event


def said(text: str, delta: Mapping[str, Any] | None = None, **fields: Any) -> Event:
    """An event of the agent."""
    fields.setdefault("timestamp", round(time.time(), 3))
    return Event(
        author="agent",
        content=content_of("model", [text_part(text)]),
        actions=EventActions(state_delta=dict(delta or {})),
        **fields,
    )


def texts_of(session: Session) -> list[str]:
    """What the events of a session say, in order."""
    return [event.text for event in session.events]


async def expect_not_found(appending: Awaitable[Event], where: str) -> None:
    """Fail unless an append raises `SessionNotFoundError`."""
    try:
        await appending
    except SessionNotFoundError:
        return
    raise AssertionError(f"An event was appended to {where}; `SessionNotFoundError` was expected.")


class SessionRules(Suite):
    """What the rules of session services are tried on."""

    def make_service(self) -> BaseSessionService | Awaitable[BaseSessionService]:
        """The service to be checked, made anew for each test. It may hold sessions of other apps."""
        raise NotImplementedError(f"{type(self).__name__} has to define `make_service(self)`.")

    def reopen(self, service: BaseSessionService) -> BaseSessionService | Awaitable[BaseSessionService] | None:
        """A second service on the same data, as another process would open it; None if the store has no such thing."""
        return None

    async def place(self) -> Place:
        """A store with an app of the test's own."""
        return Place(await self.opened(self.make_service()))

    async def reopened(self, place: Place) -> Place:
        """The same place through a second service; the test is skipped if there is no such thing."""
        await place.service.flush()
        again = self.reopen(place.service)
        if again is None:
            pytest.skip("`reopen` is not defined: the store does not outlive its service")
        return Place(await self.opened(again), place.app, place.user)
