"""A night shift at a warehouse: two workers, one of which is killed, and a payment that waits for a person."""

from .agent import root_agent

__all__ = ["root_agent"]
