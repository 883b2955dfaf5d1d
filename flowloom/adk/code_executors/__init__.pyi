# made from table.py by tests/adk/stubs.py

from flowloom.processors import BaseCodeExecutor
from flowloom.processors import BuiltInCodeExecutor
from flowloom.processors import LocalCodeExecutor as UnsafeLocalCodeExecutor

__all__ = [
    "BaseCodeExecutor",
    "BuiltInCodeExecutor",
    "UnsafeLocalCodeExecutor",
]
