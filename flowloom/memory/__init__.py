"""Memory: what is remembered of a user across sessions."""

from flowloom.memory.in_memory import InMemoryMemoryService
from flowloom.memory.service import BaseMemoryService, MemoryEntry, SearchMemoryResponse

__all__ = ["BaseMemoryService", "InMemoryMemoryService", "MemoryEntry", "SearchMemoryResponse"]
