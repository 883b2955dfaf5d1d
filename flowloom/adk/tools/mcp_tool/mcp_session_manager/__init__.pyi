# made from table.py by tests/adk/stubs.py

from flowloom.protocols.mcp import SseConnectionParams
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.protocols.mcp import StreamableHTTPConnectionParams

__all__ = [
    "SseConnectionParams",
    "StdioConnectionParams",
    "StreamableHTTPConnectionParams",
]
