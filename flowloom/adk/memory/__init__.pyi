# made from table.py by tests/adk/stubs.py

from flowloom.memory import BaseMemoryService
from flowloom.memory import InMemoryMemoryService
from flowloom.memory import SqliteMemoryService

__all__ = [
    "BaseMemoryService",
    "InMemoryMemoryService",
    "SqliteMemoryService",
]
