"""`EventStore`: sessions, followed by their events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self, cast

from flowloom.client.session_events import SessionEvents
from flowloom.client.stored_form import FORMAT, check_stored
from flowloom.errors import ConfigurationError, SessionNotFoundError
from flowloom.events.event import Event
from flowloom.interop.parsed import ParsedEvent
from flowloom.objects.given import several


class EventStore:
    """Follows sessions by their events, and keeps what a page shows of them.

    `max_events` bounds, for each session, the ring of raw events and each of the lists that are made of them. An event
    that came before (by its id, among the last `4 * max_events` ids) changes nothing, so that a stream may be read
    again after a lost connection.
    """

    def __init__(self, max_events: int = 1000) -> None:
        if not isinstance(max_events, int) or max_events < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`max_events` is an integer of at least 1, not {max_events!r}.")
        self.max_events = max_events
        self._sessions: dict[str, SessionEvents] = {}

    def add(self, event: ParsedEvent | Event, session_id: str = "") -> bool:
        """Take `event` in, as one of the session `session_id`, which events do not say; False if it came before."""
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = SessionEvents(self.max_events)
        return session.add(event if isinstance(event, ParsedEvent) else ParsedEvent(event))

    def extend(self, events: Iterable[ParsedEvent | Event], session_id: str = "") -> None:
        """Take `events` of the session `session_id` in, one after another."""
        for event in several(events, "`EventStore.extend` takes a list of events."):
            self.add(event, session_id)

    def session(self, session_id: str = "") -> SessionEvents:
        """What is known of the session `session_id`. Raises `SessionNotFoundError` if no event of it came."""
        try:
            return self._sessions[session_id]
        except KeyError:
            raise SessionNotFoundError(f"No event of a session `{session_id}` came to this store.") from None

    def end(self, session_id: str = "") -> None:
        """The stream of the session `session_id` ended, and nothing goes on: messages without their complete event
        become `interrupted`.
        """
        if session_id in self._sessions:
            self._sessions[session_id].end("interrupted")

    def drop(self, session_id: str = "") -> None:
        """Forget the session `session_id`."""
        self._sessions.pop(session_id, None)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def __iter__(self) -> Iterator[str]:
        return iter(self._sessions)

    def __len__(self) -> int:
        return len(self._sessions)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rings of raw events, as JSON data."""
        sessions = {session_id: session.to_dict() for session_id, session in self._sessions.items()}
        return {"format": FORMAT, "max_events": self.max_events, "sessions": sessions}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The store that `data` was made of. Raises `ConfigurationError` for what `to_dict` did not write."""
        check_stored(data)
        store = cls(data["max_events"])
        sessions = cast(dict[str, dict[str, Any]], data["sessions"])
        store._sessions = {name: SessionEvents.from_dict(each, store.max_events) for name, each in sessions.items()}
        return store
