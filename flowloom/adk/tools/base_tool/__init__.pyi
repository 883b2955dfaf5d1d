# made from table.py by tests/adk/stubs.py

from flowloom.tools import BaseTool

__all__ = [
    "BaseTool",
]
