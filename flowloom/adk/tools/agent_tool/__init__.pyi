# made from table.py by tests/adk/stubs.py

from flowloom.tools import AgentTool

__all__ = [
    "AgentTool",
]
