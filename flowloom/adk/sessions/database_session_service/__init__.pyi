# made from table.py by tests/adk/stubs.py

from flowloom.sessions import DatabaseSessionService

__all__ = [
    "DatabaseSessionService",
]
