"""A single agent with tools: it converts units."""

from .agent import root_agent

__all__ = ["root_agent"]
