# made from table.py by tests/adk/stubs.py

from flowloom.protocols.mcp import MCPTool
from flowloom.protocols.mcp import MCPToolset
from flowloom.protocols.mcp import McpTool
from flowloom.protocols.mcp import McpToolset
from flowloom.protocols.mcp import SseConnectionParams
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.protocols.mcp import to_mcp_server

__all__ = [
    "MCPTool",
    "MCPToolset",
    "McpTool",
    "McpToolset",
    "SseConnectionParams",
    "StdioConnectionParams",
    "StreamableHTTPConnectionParams",
    "to_mcp_server",
]
