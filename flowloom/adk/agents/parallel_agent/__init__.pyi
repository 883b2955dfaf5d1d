# made from table.py by tests/adk/stubs.py

from flowloom.agents import ParallelAgent

__all__ = [
    "ParallelAgent",
]
