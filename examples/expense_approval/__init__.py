"""Expenses: small ones are paid at once, larger ones wait for a manager, however long that takes."""

from .agent import root_agent

__all__ = ["root_agent"]
