# made from table.py by tests/adk/stubs.py

from flowloom.agents import SequentialAgent

__all__ = [
    "SequentialAgent",
]
