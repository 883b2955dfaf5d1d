# made from table.py by tests/adk/stubs.py

from flowloom.processors import BasePlanner

__all__ = [
    "BasePlanner",
]
