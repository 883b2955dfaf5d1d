# made from table.py by tests/adk/stubs.py

from flowloom.processors import BaseCodeExecutor

__all__ = [
    "BaseCodeExecutor",
]
