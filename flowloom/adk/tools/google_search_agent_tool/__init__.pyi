# made from table.py by tests/adk/stubs.py

from flowloom.tools import GoogleSearchAgentTool

__all__ = [
    "GoogleSearchAgentTool",
]
