"""What serving takes from MCP's SDK; one place says which extra it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.extras import missing_extra

try:
    import mcp_types as mcp
    from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel.helper_types import ReadResourceContents
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
    from starlette.applications import Starlette
except ImportError as error:
    if TYPE_CHECKING:
        raise
    raise missing_extra("Serving an agent over MCP needs the SDK", "mcp", error) from error

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "MODERN_PROTOCOL_VERSIONS",
    "AccessToken",
    "AuthContextMiddleware",
    "AuthenticatedUser",
    "CallNext",
    "Context",
    "HandlerResult",
    "MCPError",
    "MCPServer",
    "ReadResourceContents",
    "ResourceError",
    "ResourceNotFoundError",
    "ServerRequestContext",
    "Starlette",
    "TransportSecuritySettings",
    "mcp",
]
