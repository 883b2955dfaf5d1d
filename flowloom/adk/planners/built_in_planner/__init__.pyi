# made from table.py by tests/adk/stubs.py

from flowloom.processors import BuiltInPlanner

__all__ = [
    "BuiltInPlanner",
]
