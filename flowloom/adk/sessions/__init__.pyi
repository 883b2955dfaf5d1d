# made from table.py by tests/adk/stubs.py

from flowloom.sessions import BaseSessionService
from flowloom.sessions import DatabaseSessionService
from flowloom.sessions import InMemorySessionService
from flowloom.sessions import Session
from flowloom.sessions import State

__all__ = [
    "BaseSessionService",
    "DatabaseSessionService",
    "InMemorySessionService",
    "Session",
    "State",
]
