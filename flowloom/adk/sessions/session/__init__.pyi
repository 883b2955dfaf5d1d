# made from table.py by tests/adk/stubs.py

from flowloom.sessions import Session

__all__ = [
    "Session",
]
