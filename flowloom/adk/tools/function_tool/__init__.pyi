# made from table.py by tests/adk/stubs.py

from flowloom.tools import FunctionTool

__all__ = [
    "FunctionTool",
]
