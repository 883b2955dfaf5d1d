"""An agent whose tools are the operations of a REST API."""

from .agent import root_agent

__all__ = ["root_agent"]
