# made from table.py by tests/adk/stubs.py

from flowloom.context import ToolContext

__all__ = [
    "ToolContext",
]
