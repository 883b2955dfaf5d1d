# made from table.py by tests/adk/stubs.py

from flowloom.context import Context

__all__ = [
    "Context",
]
