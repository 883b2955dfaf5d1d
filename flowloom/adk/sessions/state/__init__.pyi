# made from table.py by tests/adk/stubs.py

from flowloom.sessions import State

__all__ = [
    "State",
]
