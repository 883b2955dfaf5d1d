# made from table.py by tests/adk/stubs.py

from flowloom.memory import InMemoryMemoryService

__all__ = [
    "InMemoryMemoryService",
]
