# made from table.py by tests/adk/stubs.py

from flowloom.tools import LongRunningFunctionTool

__all__ = [
    "LongRunningFunctionTool",
]
