"""Reading the event streams of servers: frames, events in whichever form, and stores that gather them by session.

It imports `interop`, `models` and `events`; nothing that runs agents. Begin with `sse.py`, the reader of a stream.
"""

from flowloom.client.handlers import EventHandler, create_event_handler
from flowloom.client.sse import EventStreamReader, SseFrame
from flowloom.client.store import EventStore
from flowloom.interop.parsed import ParsedEvent, Source, parse_event_sse

__all__ = [
    "EventHandler",
    "EventStore",
    "EventStreamReader",
    "ParsedEvent",
    "Source",
    "SseFrame",
    "create_event_handler",
    "parse_event_sse",
]
