# made from table.py by tests/adk/stubs.py

from flowloom.sessions import SqliteSessionService

__all__ = [
    "SqliteSessionService",
]
