# made from table.py by tests/adk/stubs.py

from flowloom.config import ParallelAgentConfig

__all__ = [
    "ParallelAgentConfig",
]
