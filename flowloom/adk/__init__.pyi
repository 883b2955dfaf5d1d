# made from table.py by tests/adk/stubs.py

from flowloom.agents import Agent
from flowloom.context import Context
from flowloom.events import Event
from flowloom.runner import Runner

__all__ = [
    "Agent",
    "Context",
    "Event",
    "Runner",
]
