# made from table.py by tests/adk/stubs.py

from flowloom.tools import LoadMemoryTool
from flowloom.tools import load_memory
from flowloom.tools import load_memory as load_memory_tool

__all__ = [
    "LoadMemoryTool",
    "load_memory",
    "load_memory_tool",
]
