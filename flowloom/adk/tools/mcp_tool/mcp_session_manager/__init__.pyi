# made from table.py by tests/adk/stubs.py

from flowloom.protocols.mcp import SseConnectionParams
from flowloom.protocols.mcp import SseConnectionParams as SseServerParams
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.protocols.mcp import StdioServer as StdioServerParameters
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.protocols.mcp import StreamableHTTPConnectionParams as StreamableHTTPServerParams

__all__ = [
    "SseConnectionParams",
    "SseServerParams",
    "StdioConnectionParams",
    "StdioServerParameters",
    "StreamableHTTPConnectionParams",
    "StreamableHTTPServerParams",
]
