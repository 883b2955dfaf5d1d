# made from table.py by tests/adk/stubs.py

from flowloom.memory import BaseMemoryService
from flowloom.memory import SearchMemoryResponse

__all__ = [
    "BaseMemoryService",
    "SearchMemoryResponse",
]
