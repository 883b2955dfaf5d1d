"""The session that a chat is about."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from flowloom.cli.stores import session_name
from flowloom.cli.usage_error import UsageError
from flowloom.errors import AlreadyExistsError
from flowloom.events import new_id
from flowloom.runner.runner import Runner
from flowloom.sessions import Session, State


class Conversation:
    """A user's session in the store of a runner. One that is new is made by its first message."""

    def __init__(self, runner: Runner, user_id: str, session: str | None) -> None:
        self.runner = runner
        self.user_id = user_id
        self.session_id = new_id()[:8] if session is None else _own_name(session)
        self._is_named = session is not None

    @property
    def names(self) -> dict[str, Any]:
        """What services are given to find it."""
        return {"app_name": self.runner.app_name, "user_id": self.user_id, "session_id": self.session_id}

    async def session(self) -> Session | None:
        """What is stored of it; None before its first message."""
        return await self.runner.session_service.get_session(**self.names)

    async def next_session(self) -> Session:
        """What the next message finds: a session that is new has the state that all of the app and the user share."""
        found = await self.session()
        if found is not None:
            return found
        state: dict[str, Any] = {}
        for other in (await self.runner.session_service.list_sessions(app_name=self.runner.app_name)).sessions:
            shared = (State.APP_PREFIX, State.USER_PREFIX)[: 1 + (other.user_id == self.user_id)]
            state |= {key: value for key, value in other.state.items() if key.startswith(shared)}
        return Session(id=self.session_id, app_name=self.runner.app_name, user_id=self.user_id, state=state)

    async def make(self) -> bool:
        """Make the session if it is new; whether it is one that nobody has named, which gets a short name."""
        service = self.runner.session_service
        if self._is_named:
            await service.get_or_create_session(**self.names)
            return False
        while True:
            with suppress(AlreadyExistsError):
                await service.create_session(**self.names)
                self._is_named = True
                return True
            self.session_id = new_id()[:8]

    async def others(self) -> list[Session]:
        """The user's stored sessions, this one too, without their events; the oldest first."""
        listed = await self.runner.session_service.list_sessions(app_name=self.runner.app_name, user_id=self.user_id)
        return listed.sessions

    def switch(self, session_id: str) -> None:
        """Go on with another session of the store."""
        self.session_id, self._is_named = session_id, True


def _own_name(session: str) -> str:
    if session.endswith(".json"):
        raise UsageError(
            f"Sessions are kept in a store, and not in files. Take `{session}` over with `flowloom sessions import "
            f"{session}`, and give the name that it prints."
        )
    return session_name(session)
