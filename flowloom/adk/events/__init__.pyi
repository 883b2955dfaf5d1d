# made from table.py by tests/adk/stubs.py

from flowloom.events import Event
from flowloom.events import EventActions

__all__ = [
    "Event",
    "EventActions",
]
