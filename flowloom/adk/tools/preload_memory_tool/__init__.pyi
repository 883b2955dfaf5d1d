# made from table.py by tests/adk/stubs.py

from flowloom.tools import PreloadMemoryTool
from flowloom.tools import preload_memory as preload_memory_tool

__all__ = [
    "PreloadMemoryTool",
    "preload_memory_tool",
]
