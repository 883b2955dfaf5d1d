# made from table.py by tests/adk/stubs.py

from flowloom.runner import InMemoryRunner
from flowloom.runner import Runner

__all__ = [
    "InMemoryRunner",
    "Runner",
]
