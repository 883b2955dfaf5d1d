# made from table.py by tests/adk/stubs.py

from flowloom.events import EventActions
from flowloom.events import EventCompaction

__all__ = [
    "EventActions",
    "EventCompaction",
]
