"""Sessions: state, event logs, the services that keep them, and the projection of a log for a model."""

from flowloom.log.history import History, Projection, Viewer, project, visible
from flowloom.sessions.in_memory import InMemorySessionService
from flowloom.sessions.leases import SessionLease
from flowloom.sessions.service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from flowloom.sessions.session import Session
from flowloom.sessions.state import State

__all__ = [
    "BaseSessionService",
    "GetSessionConfig",
    "History",
    "InMemorySessionService",
    "ListSessionsResponse",
    "Projection",
    "Session",
    "SessionLease",
    "State",
    "Viewer",
    "project",
    "visible",
]
