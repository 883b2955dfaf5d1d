# made from table.py by tests/adk/stubs.py

from flowloom.wrappers import FallbackModel

__all__ = [
    "FallbackModel",
]
