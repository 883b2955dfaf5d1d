"""Memory: what is remembered of a user across sessions.

It imports `sessions`, `sql` and the rooms below. Begin with `service.py`: what every memory does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.memory.in_memory import InMemoryMemoryService
from flowloom.memory.service import BaseMemoryService
from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.memory.entries import MemoryEntry, SearchMemoryResponse
    from flowloom.memory.postgres import PostgresMemoryService
    from flowloom.memory.sqlite import SqliteMemoryService

_HOMES = {
    "entries": "MemoryEntry SearchMemoryResponse",
    "postgres": "PostgresMemoryService",
    "sqlite": "SqliteMemoryService",
}

__all__ = [
    "BaseMemoryService",
    "InMemoryMemoryService",
    "MemoryEntry",
    "PostgresMemoryService",
    "SearchMemoryResponse",
    "SqliteMemoryService",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
