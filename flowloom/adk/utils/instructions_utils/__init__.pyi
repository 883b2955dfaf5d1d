# made from table.py by tests/adk/stubs.py

from flowloom.processors import inject_session_state

__all__ = [
    "inject_session_state",
]
