# made from table.py by tests/adk/stubs.py

from flowloom.sessions import InMemorySessionService

__all__ = [
    "InMemorySessionService",
]
