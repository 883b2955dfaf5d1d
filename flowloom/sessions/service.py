"""The session service protocol (spec §19)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flowloom.events.event import Event
from flowloom.events.wire import WireModel, shallow_copy
from flowloom.sessions.session import Session
from flowloom.sessions.state import State


class GetSessionConfig(BaseModel):
    """Which events `get_session` loads: the last `num_recent_events`, of those at or after `after_timestamp`."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    num_recent_events: int | None = Field(default=None, ge=0)
    after_timestamp: float | None = None


class ListSessionsResponse(WireModel):
    """Sessions without their events, oldest first."""

    model_config = ConfigDict(defer_build=True)

    sessions: list[Session] = Field(default_factory=list[Session])


class BaseSessionService(ABC):
    """A store of sessions: an append-only log of events each, and state by scope.

    A session is named by app, user and id. Appending an event whose id is stored already changes nothing, so
    a writer may repeat itself; two writers never lose each other's events.
    """

    @abstractmethod
    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session; an id is made if none is given. Raises `AlreadyExistsError`."""

    @abstractmethod
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A snapshot of the session, or None if there is none."""

    @abstractmethod
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of an app, or of one of its users."""

    @abstractmethod
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session. Deleting one that does not exist is fine."""

    @abstractmethod
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store `event`, bring `session` up to date, and return the event as it is stored.

        A partial event is not stored. `temp:` state reaches `session.state` and nothing else.
        Raises `SessionNotFoundError` if the session is not in the store.
        """

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state that all sessions of a user share, without its prefix."""
        raise NotImplementedError(f"{type(self).__name__} does not offer user state.")

    async def flush(self) -> None:
        """Return when everything appended so far is durable."""
        return


def without_temp_state(event: Event) -> Event:
    """The event as it is stored: a copy without its `temp:` keys, or the event itself if it has none."""
    delta = event.actions.state_delta
    if not delta or not any(key.startswith(State.TEMP_PREFIX) for key in delta):
        return event
    stored = shallow_copy(event)
    actions = shallow_copy(event.actions)
    vars(actions)["state_delta"] = {k: v for k, v in delta.items() if not k.startswith(State.TEMP_PREFIX)}
    vars(stored)["actions"] = actions
    return stored


def apply_event(session: Session, event: Event, stored: Event) -> None:
    """Bring a caller's snapshot up to date with an event that was stored."""
    if event.actions.state_delta:
        session.state.update(event.actions.state_delta)
    session.events.append(stored)
    vars(session)["last_update_time"] = stored.timestamp  # a tenth of what an assignment costs
