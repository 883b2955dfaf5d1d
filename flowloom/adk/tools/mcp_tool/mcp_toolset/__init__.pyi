# made from table.py by tests/adk/stubs.py

from flowloom.protocols.mcp import MCPToolset
from flowloom.protocols.mcp import McpToolset

__all__ = [
    "MCPToolset",
    "McpToolset",
]
