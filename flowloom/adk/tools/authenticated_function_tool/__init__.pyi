# made from table.py by tests/adk/stubs.py

from flowloom.tools import AuthenticatedFunctionTool

__all__ = [
    "AuthenticatedFunctionTool",
]
