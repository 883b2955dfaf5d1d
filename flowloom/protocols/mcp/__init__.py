"""MCP: the tools, resources and prompts of servers (protocols spec §1). Needs the extra `mcp`.

Nothing here loads the SDK before something is connected. Begin with `toolset.py`; then `pool.py` (which connection),
`connection.py` (one connection, owned by one task), `tool_calls.py` (one call) and `content.py` (its result).
`serving` is the other side: agents and tools of ours as a server (spec §2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.protocols.mcp.errors import McpProtocolError, McpToolError, McpTransportError
    from flowloom.protocols.mcp.parameters import (
        SseConnectionParams,
        StdioConnectionParams,
        StdioServer,
        StreamableHTTPConnectionParams,
    )
    from flowloom.protocols.mcp.prompts import McpInstructionProvider
    from flowloom.protocols.mcp.serving import to_mcp_server
    from flowloom.protocols.mcp.tool import MCPTool, McpTool
    from flowloom.protocols.mcp.toolset import MCPToolset, McpToolset

_HOMES = {
    "errors": "McpProtocolError McpToolError McpTransportError",
    "parameters": "SseConnectionParams StdioConnectionParams StdioServer StreamableHTTPConnectionParams",
    "prompts": "McpInstructionProvider",
    "serving": "to_mcp_server",
    "tool": "MCPTool McpTool",
    "toolset": "MCPToolset McpToolset",
}

__all__ = [
    "MCPTool",
    "MCPToolset",
    "McpInstructionProvider",
    "McpProtocolError",
    "McpTool",
    "McpToolError",
    "McpToolset",
    "McpTransportError",
    "SseConnectionParams",
    "StdioConnectionParams",
    "StdioServer",
    "StreamableHTTPConnectionParams",
    "to_mcp_server",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
