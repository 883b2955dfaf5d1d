# made from table.py by tests/adk/stubs.py

from flowloom.memory import SqliteMemoryService

__all__ = [
    "SqliteMemoryService",
]
