# made from table.py by tests/adk/stubs.py

from flowloom.config import BaseAgentConfig

__all__ = [
    "BaseAgentConfig",
]
