# made from table.py by tests/adk/stubs.py

from flowloom.agents import Agent
from flowloom.agents import BaseAgent
from flowloom.agents import LlmAgent
from flowloom.agents import LoopAgent
from flowloom.agents import ParallelAgent
from flowloom.agents import SequentialAgent
from flowloom.context import Context
from flowloom.context import InvocationContext
from flowloom.context import RunConfig

__all__ = [
    "Agent",
    "BaseAgent",
    "Context",
    "InvocationContext",
    "LlmAgent",
    "LoopAgent",
    "ParallelAgent",
    "RunConfig",
    "SequentialAgent",
]
