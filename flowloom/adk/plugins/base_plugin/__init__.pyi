# made from table.py by tests/adk/stubs.py

from flowloom.plugins import BasePlugin

__all__ = [
    "BasePlugin",
]
