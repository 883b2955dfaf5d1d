# made from table.py by tests/adk/stubs.py

from flowloom.context import ReadonlyContext

__all__ = [
    "ReadonlyContext",
]
