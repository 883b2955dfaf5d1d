"""An agent whose tools are an MCP server's."""

from .agent import root_agent

__all__ = ["root_agent"]
