# made from table.py by tests/adk/stubs.py

from flowloom.config import SequentialAgentConfig

__all__ = [
    "SequentialAgentConfig",
]
