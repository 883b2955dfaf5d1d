# made from table.py by tests/adk/stubs.py

from flowloom.sessions import BaseSessionService
from flowloom.sessions import GetSessionConfig
from flowloom.sessions import ListSessionsResponse

__all__ = [
    "BaseSessionService",
    "GetSessionConfig",
    "ListSessionsResponse",
]
