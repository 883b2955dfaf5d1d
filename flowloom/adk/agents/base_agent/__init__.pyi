# made from table.py by tests/adk/stubs.py

from flowloom.agents import BaseAgent

__all__ = [
    "BaseAgent",
]
