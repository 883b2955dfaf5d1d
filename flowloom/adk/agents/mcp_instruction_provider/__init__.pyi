# made from table.py by tests/adk/stubs.py

from flowloom.protocols.mcp import McpInstructionProvider

__all__ = [
    "McpInstructionProvider",
]
