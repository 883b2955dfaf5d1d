# made from table.py by tests/adk/stubs.py

from flowloom.protocols.mcp import MCPTool
from flowloom.protocols.mcp import McpTool

__all__ = [
    "MCPTool",
    "McpTool",
]
