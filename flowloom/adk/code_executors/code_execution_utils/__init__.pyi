# made from table.py by tests/adk/stubs.py

from flowloom.processors import CodeExecutionInput
from flowloom.processors import CodeExecutionResult
from flowloom.processors import File

__all__ = [
    "CodeExecutionInput",
    "CodeExecutionResult",
    "File",
]
