"""Logs of conversations, and those who summarise them."""

from __future__ import annotations

import asyncio
from typing import Any

from google.genai import types
from kit import event, said

from flowloom import Event, EventActions, EventsCompactionConfig, InMemorySessionService, Session
from flowloom.compaction import BaseEventsSummarizer
from flowloom.events import EventCompaction
from flowloom.log import Viewer

ROOT = Viewer("root", keeps_call_ids=True)
ALL = {"event_threshold": 1, "event_retention_size": 0}
"""Summarise all that may be."""


class Tally(BaseEventsSummarizer):
    """Writes which words it was given, and keeps the events."""

    def __init__(self) -> None:
        self.asked: list[list[Event]] = []

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        self.asked.append(events)
        content = said("<" + " ".join(words(events)) + ">")
        compaction = EventCompaction(start_timestamp=0, end_timestamp=0, compacted_content=content)
        return Event(actions=EventActions(compaction=compaction))


class Gate(Tally):
    """Writes once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for = asyncio.Event()
        self.open = asyncio.Event()

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        self.asked_for.set()
        await self.open.wait()
        return await super().maybe_summarize_events(events=events)


def words(events: list[Event]) -> list[str]:
    """What is said in events, calls and results by the id of the call."""
    found: list[str] = []
    for each in events:
        for part in (each.content.parts if each.content is not None else None) or ():
            if part.function_call is not None:
                found.append(f"{part.function_call.id}?")
            elif part.function_response is not None:
                found.append(f"{part.function_response.id}!")
            elif part.text:
                found.append(part.text)
    return found


def shown_words(contents: list[types.Content]) -> list[str]:
    """The same of contents."""
    return words([Event(content=content) for content in contents])


def turns(count: int, *, start: int = 0, size: int = 1, **fields: Any) -> list[Event]:
    """A conversation of so many turns, each a message `u0` and an answer `a0`, `size` times as long."""
    events: list[Event] = []
    for number in range(start, start + count):
        common = {"invocation_id": f"i{number}", **fields}
        events.append(event("user", f"u{number}" * size, timestamp=10.0 * number, **common))
        events.append(event("root", f"a{number}" * size, timestamp=10.0 * number + 1, **common))
    return events


async def session_of(*events: Event) -> tuple[Session, InMemorySessionService]:
    """A stored session with these events."""
    service = InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="ann", session_id="s1")
    for each in events:
        await service.append_event(session, each)
    return session, service


def config(**fields: Any) -> EventsCompactionConfig:
    """Settings with a `Tally` to summarise."""
    return EventsCompactionConfig(summarizer=Tally(), **fields)


def asked(given: EventsCompactionConfig) -> list[list[str]]:
    """What the summariser was given, each time."""
    assert isinstance(given.summarizer, Tally)
    return [words(events) for events in given.summarizer.asked]


def shown(session: Session, viewer: Viewer = ROOT) -> list[str]:
    """What a model is shown of a session."""
    return shown_words(session.history.contents(session.events, viewer).contents)
