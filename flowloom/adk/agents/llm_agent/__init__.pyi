# made from table.py by tests/adk/stubs.py

from flowloom.agents import Agent
from flowloom.agents import LlmAgent
from flowloom.agents.llm_agent import InstructionProvider

__all__ = [
    "Agent",
    "InstructionProvider",
    "LlmAgent",
]
