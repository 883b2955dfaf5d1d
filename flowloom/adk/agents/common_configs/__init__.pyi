# made from table.py by tests/adk/stubs.py

from flowloom.config import AgentRefConfig
from flowloom.config import CodeConfig

__all__ = [
    "AgentRefConfig",
    "CodeConfig",
]
