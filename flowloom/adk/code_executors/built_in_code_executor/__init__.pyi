# made from table.py by tests/adk/stubs.py

from flowloom.processors import BuiltInCodeExecutor

__all__ = [
    "BuiltInCodeExecutor",
]
