# made from table.py by tests/adk/stubs.py

from flowloom.memory import MemoryEntry

__all__ = [
    "MemoryEntry",
]
