"""Sessions: state, event logs, and the services that keep them.

It imports `log`, `sql` and the rooms below. Begin with `service.py`: what every store of sessions does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use
from flowloom.sessions.in_memory import InMemorySessionService
from flowloom.sessions.leases import SessionLease
from flowloom.sessions.service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from flowloom.sessions.session import Session
from flowloom.sessions.state import State

if TYPE_CHECKING:
    from flowloom.sessions.database import DatabaseSessionService
    from flowloom.sessions.postgres import PostgresSessionService
    from flowloom.sessions.sqlite import SqliteSessionService

_HOMES = {
    "database": "DatabaseSessionService",
    "postgres": "PostgresSessionService",
    "sqlite": "SqliteSessionService",
}

__all__ = [
    "BaseSessionService",
    "DatabaseSessionService",
    "GetSessionConfig",
    "InMemorySessionService",
    "ListSessionsResponse",
    "PostgresSessionService",
    "Session",
    "SessionLease",
    "SqliteSessionService",
    "State",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
