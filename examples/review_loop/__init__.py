"""A loop: a writer and a reviewer take turns until the reviewer is content."""

from .agent import root_agent

__all__ = ["root_agent"]
