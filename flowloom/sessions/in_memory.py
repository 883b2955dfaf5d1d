"""`InMemorySessionService`: sessions that live as long as the process (spec §19)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

from flowloom.events.clock import now
from flowloom.events.event import Event
from flowloom.events.wire import make
from flowloom.log.history import History
from flowloom.sessions.admission import admitted_state, key_of_new
from flowloom.sessions.leases import LeaseQueue
from flowloom.sessions.service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
    already_exists,
    apply_event,
    as_appended,
    events_up_to,
    missing_events,
    own_state,
    session_not_found,
    state_after,
    without_temp_state,
)
from flowloom.sessions.session import Session
from flowloom.sessions.shared_list import shared
from flowloom.sessions.state import merge_scopes, own_value, split_by_scope

_Key = tuple[str, str, str]
_KeyT = TypeVar("_KeyT")
_key_of: Callable[[Session], _Key] = attrgetter("app_name", "user_id", "id")


@dataclass(slots=True, eq=False, repr=False)
class _Stored:
    state: dict[str, Any]
    last_update_time: float
    events: list[Event] = field(default_factory=list[Event])
    ids: set[str] = field(default_factory=set[str])
    history: History = field(default_factory=History)
    initial: dict[str, Any] = field(default_factory=dict[str, Any])


class InMemorySessionService(BaseSessionService):
    """Keeps sessions in dictionaries. Every operation is atomic within an event loop.

    The `*_sync` methods do the same without an event loop.
    """

    def __init__(self) -> None:
        self._sessions: dict[_Key, _Stored] = {}
        self._app_state: dict[str, dict[str, Any]] = {}
        self._user_state: dict[tuple[str, str], dict[str, Any]] = {}
        self._deciding = LeaseQueue()  # one from the beginning: loops of several threads may share the service

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        return self.create_session_sync(app_name=app_name, user_id=user_id, state=state, session_id=session_id)

    def create_session_sync(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """`create_session` without an event loop, which tells of `state`."""
        key = key_of_new(app_name, user_id, session_id)
        if key in self._sessions:
            raise already_exists(*key)
        app, user, own = split_by_scope(admitted_state(state or {}))
        self._write_shared(app_name, user_id, app, user)
        stored = _Stored(_owned(own), now(), initial=_owned(own))
        self._sessions[key] = stored
        return self._snapshot(key, stored)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        return self.get_session_sync(app_name=app_name, user_id=user_id, session_id=session_id, config=config)

    def get_session_sync(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """`get_session` without an event loop, which tells of `config`."""
        key = (app_name, user_id, session_id)
        stored = self._sessions.get(key)
        return None if stored is None else self._snapshot(key, stored, config)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        return self.list_sessions_sync(app_name=app_name, user_id=user_id)

    def list_sessions_sync(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """`list_sessions` without an event loop."""
        found = [
            self._snapshot(key, stored, GetSessionConfig(num_recent_events=0))
            for key, stored in self._sessions.items()
            if key[0] == app_name and user_id in (None, key[1])
        ]
        return ListSessionsResponse(sessions=sorted(found, key=lambda session: session.last_update_time))

    async def app_names(self) -> list[str]:
        return sorted({key[0] for key in self._sessions})

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        self.delete_session_sync(app_name=app_name, user_id=user_id, session_id=session_id)

    def delete_session_sync(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """`delete_session` without an event loop."""
        self._sessions.pop((app_name, user_id, session_id), None)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return _owned(self._user_state.get((app_name, user_id), {}))

    async def initial_state(self, *, app_name: str, user_id: str, session_id: str) -> dict[str, Any]:
        return _owned(self._found((app_name, user_id, session_id)).initial)

    async def fork(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_session_id: str | None = None,
        up_to_event_id: str | None = None,
    ) -> Session:
        source = self._found((app_name, user_id, session_id))
        session = self._snapshot((app_name, user_id, session_id), source)
        events = events_up_to(session, up_to_event_id)
        own = source.state if up_to_event_id is None else state_after(events, source.initial)
        key = key_of_new(app_name, user_id, new_session_id)
        if key in self._sessions:
            raise already_exists(*key)
        ids = {event.id for event in events}
        updated = events[-1].timestamp if events else source.last_update_time
        self._sessions[key] = _Stored(_owned(own), updated, events.copy(), ids, initial=_owned(source.initial))
        return self._snapshot(key, self._sessions[key])

    async def import_session(self, session: Session, *, initial_state: Mapping[str, Any] | None = None) -> Session:
        key = _key_of(session)
        stored = self._sessions.get(key)
        missing = missing_events(session, [] if stored is None else [event.id for event in stored.events])
        fresh = [without_temp_state(event) for event in missing]
        app, user, own = split_by_scope(admitted_state(session.state))
        if stored is None:
            changed = {name for event in missing for name in event.actions.state_delta}
            initial = {name: value for name, value in own.items() if name not in changed}
            if initial_state is not None:
                initial = own_state(initial_state)
            stored = self._sessions[key] = _Stored({}, session.last_update_time, initial=_owned(initial))
        elif not missing:
            return self._snapshot(key, stored)
        self._write_shared(session.app_name, session.user_id, app, user)
        stored.state.update(_owned(own))
        stored.events.extend(fresh)
        stored.ids.update(event.id for event in fresh)
        stored.last_update_time = session.last_update_time
        return self._snapshot(key, stored)

    def _found(self, key: _Key) -> _Stored:
        stored = self._sessions.get(key)
        if stored is None:
            raise session_not_found(*key)
        return stored

    def adopt(self, session: Session) -> None:
        """Put a session that was built elsewhere into the store, with its events and state as they are."""
        app, user, own = split_by_scope(session.state)
        self._write_shared(session.app_name, session.user_id, app, user)
        changed = {name for event in session.events for name in event.actions.state_delta}
        self._sessions[_key_of(session)] = _Stored(
            _owned(own),
            session.last_update_time,
            list(session.events),
            {event.id for event in session.events},
            session.history,
            {name: own_value(value) for name, value in own.items() if name not in changed},
        )

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        key = _key_of(session)
        stored = self._sessions.get(key)
        if stored is None:
            raise session_not_found(*key)
        if event.id in stored.ids:
            return next(each for each in reversed(stored.events) if each.id == event.id)
        kept = as_appended(stored.events, event)
        if kept.actions.state_delta:
            app, user, own = split_by_scope(kept.actions.state_delta)
            self._write_shared(session.app_name, session.user_id, app, user)
            stored.state.update(_owned(own))
        stored.events.append(kept)
        stored.ids.add(kept.id)
        stored.last_update_time = kept.timestamp
        apply_event(session, event, kept)
        return kept

    def _write_shared(self, app_name: str, user_id: str, app: dict[str, Any], user: dict[str, Any]) -> None:
        if app:
            self._app_state.setdefault(app_name, {}).update(_owned(app))
        if user:
            self._user_state.setdefault((app_name, user_id), {}).update(_owned(user))

    def _snapshot(self, key: _Key, stored: _Stored, config: GetSessionConfig | None = None) -> Session:
        app_name, user_id, session_id = key
        events: Sequence[Event] = shared(stored.events)
        if config is not None:
            if config.num_recent_events is not None:
                events = events[-config.num_recent_events :] if config.num_recent_events else []
            if config.after_timestamp is not None:
                events = [event for event in events if event.timestamp >= config.after_timestamp]
        state = merge_scopes(
            self._app_state.get(app_name, {}), self._user_state.get((app_name, user_id), {}), stored.state
        )
        session = make(
            Session,
            id=session_id,
            app_name=app_name,
            user_id=user_id,
            state=state,
            events=events,
            last_update_time=stored.last_update_time,
        )
        if config is None:
            session.share_history(stored.history)
        return session


def _owned(values: dict[_KeyT, Any]) -> dict[_KeyT, Any]:
    return {key: own_value(value) for key, value in values.items()}
