# made from table.py by tests/adk/stubs.py

from flowloom.tools import BaseToolset
from flowloom.tools.base_toolset import ToolPredicate

__all__ = [
    "BaseToolset",
    "ToolPredicate",
]
