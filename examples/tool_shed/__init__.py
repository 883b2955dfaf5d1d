"""An agent, and its tools, for MCP clients."""

from .agent import root_agent

__all__ = ["root_agent"]
