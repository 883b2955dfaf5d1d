# made from table.py by tests/adk/stubs.py

from flowloom.errors import SessionNotFoundError

__all__ = [
    "SessionNotFoundError",
]
