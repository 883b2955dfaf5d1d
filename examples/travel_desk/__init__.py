"""A travel desk: a root agent, five specialists, and a trip planner that researches in parallel and then writes."""

from .agent import root_agent

__all__ = ["root_agent"]
