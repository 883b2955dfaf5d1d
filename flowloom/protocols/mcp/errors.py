"""What can go wrong with a call to an MCP server: three classes, which hooks and wrappers can tell apart."""

from __future__ import annotations

from typing import Any

from flowloom.errors import ToolError


class McpToolError(ToolError):
    """The tool ran and says that it failed (`isError`). Its text is the tool's own."""


class McpProtocolError(ToolError):
    """The server refused the request. Attribute: `code` (of JSON-RPC; -32602 for a tool that it does not know)."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class McpTransportError(ToolError):
    """The server could not be reached, or the connection broke. Attributes: `status` (of HTTP, or None), and `sent`
    (whether the request may have reached the server, so that it may have been carried out)."""

    def __init__(self, message: str, *, status: int | None = None, sent: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.sent = sent
        self.refusal: Any = None
        """What the HTTP answer said, as far as it matters."""
