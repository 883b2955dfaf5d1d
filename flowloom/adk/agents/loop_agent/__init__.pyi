# made from table.py by tests/adk/stubs.py

from flowloom.agents import LoopAgent

__all__ = [
    "LoopAgent",
]
