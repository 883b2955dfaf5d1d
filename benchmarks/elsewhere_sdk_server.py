"""A server of one tool as the MCP SDK makes it: what calls of servers cost in practice."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("add")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


server.run()
