"""A session service that keeps JSON texts: a second honest one for the suite, and a base for dishonest ones."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from flowloom import BaseSessionService, Event, Session, SessionNotFoundError
from flowloom.errors import AlreadyExistsError
from flowloom.sessions import GetSessionConfig, ListSessionsResponse
from flowloom.sessions.service import apply_event, without_temp_state
from flowloom.sessions.state import split_by_scope

Key = tuple[str, ...]


@dataclass
class Row:
    key: Key
    state: str = "{}"
    events: list[str] = field(default_factory=list[str])
    updated: float = field(default_factory=time.time)


@dataclass
class Data:
    rows: dict[Key, Row] = field(default_factory=dict[Key, Row])
    shared: dict[Key, str] = field(default_factory=dict[Key, str])
    """State of apps `(app,)` and of users `(app, user)`."""


class JsonStore(BaseSessionService):
    def __init__(self, data: Data | None = None) -> None:
        self.data = data or Data()

    def key(self, app_name: str, user_id: str, session_id: str) -> Key:
        return app_name, user_id, session_id

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        session_id = session_id or str(uuid4())
        key = self.key(app_name, user_id, session_id)
        if key in self.data.rows:
            raise AlreadyExistsError(f"`{session_id}` exists.")
        row = self.data.rows[key] = Row((app_name, user_id, session_id))
        self.change(row, state or {})
        return self.load(row)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        row = self.data.rows.get(self.key(app_name, user_id, session_id))
        return None if row is None else self.load(row, config)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        none = GetSessionConfig(num_recent_events=0)
        rows = [row for row in self.data.rows.values() if row.key[0] == app_name and user_id in (None, row.key[1])]
        return ListSessionsResponse(sessions=[self.load(row, none) for row in sorted(rows, key=lambda r: r.updated)])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        self.data.rows.pop(self.key(app_name, user_id, session_id), None)

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        row = self.data.rows.get(self.key(session.app_name, session.user_id, session.id))
        if row is None:
            raise SessionNotFoundError(f"`{session.id}` is not there.")
        if self.is_stored(row, event):
            return event
        stored = without_temp_state(event)
        self.change(row, stored.actions.state_delta)
        row.events.append(self.write(stored))
        row.updated = stored.timestamp
        apply_event(session, event, stored)
        return stored

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return json.loads(self.data.shared.get((app_name, user_id), "{}"))

    # -- what a dishonest store does otherwise -----------------------------------------------------

    def is_stored(self, row: Row, event: Event) -> bool:
        return any(json.loads(line)["id"] == event.id for line in row.events)

    def write(self, event: Event) -> str:
        return json.dumps(event.to_wire())

    def read(self, row: Row) -> list[Event]:
        return [Event.model_validate_json(line) for line in row.events]

    def selected(self, events: list[Event], config: GetSessionConfig) -> list[Event]:
        if config.num_recent_events is not None:
            events = events[len(events) - min(config.num_recent_events, len(events)) :]
        if config.after_timestamp is not None:
            events = [event for event in events if event.timestamp >= config.after_timestamp]
        return events

    def load(self, row: Row, config: GetSessionConfig | None = None) -> Session:
        app, user, session_id = row.key
        state = json.loads(row.state)
        for prefix, key in (("app:", (app,)), ("user:", (app, user))):
            state |= {prefix + name: value for name, value in json.loads(self.data.shared.get(key, "{}")).items()}
        events = self.selected(self.read(row), config or GetSessionConfig())
        return Session(
            id=session_id, app_name=app, user_id=user, state=state, events=events, last_update_time=row.updated
        )

    def change(self, row: Row, delta: dict[str, Any]) -> None:
        app, user, own = split_by_scope(delta)
        for key, values in (((row.key[0],), app), (row.key[:2], user)):
            if values:
                self.data.shared[key] = self.merge(self.data.shared.get(key, "{}"), values)
        row.state = self.merge(row.state, own)

    def merge(self, stored: str, values: dict[str, Any]) -> str:
        return json.dumps(json.loads(stored) | values)
