# made from table.py by tests/adk/stubs.py

from flowloom.agents import BaseAgent
from flowloom.agents.base_agent import AgentCallbacks as AfterAgentCallback
from flowloom.agents.base_agent import AgentCallbacks as BeforeAgentCallback

__all__ = [
    "AfterAgentCallback",
    "BaseAgent",
    "BeforeAgentCallback",
]
