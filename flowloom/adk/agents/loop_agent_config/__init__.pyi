# made from table.py by tests/adk/stubs.py

from flowloom.config import LoopAgentConfig

__all__ = [
    "LoopAgentConfig",
]
