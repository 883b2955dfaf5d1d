# made from table.py by tests/adk/stubs.py

from flowloom.agents import Agent
from flowloom.agents import LlmAgent
from flowloom.agents.base_agent import AgentCallbacks as AfterModelCallback
from flowloom.agents.base_agent import AgentCallbacks as AfterToolCallback
from flowloom.agents.base_agent import AgentCallbacks as BeforeModelCallback
from flowloom.agents.base_agent import AgentCallbacks as BeforeToolCallback
from flowloom.agents.base_agent import AgentCallbacks as OnModelErrorCallback
from flowloom.agents.base_agent import AgentCallbacks as OnToolErrorCallback
from flowloom.agents.llm_agent import InstructionProvider
from flowloom.agents.llm_agent import Tool as ToolUnion

__all__ = [
    "Agent",
    "InstructionProvider",
    "LlmAgent",
    "ToolUnion",
    "AfterModelCallback",
    "AfterToolCallback",
    "BeforeModelCallback",
    "BeforeToolCallback",
    "OnModelErrorCallback",
    "OnToolErrorCallback",
]
