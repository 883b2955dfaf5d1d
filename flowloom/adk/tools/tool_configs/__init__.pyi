# made from table.py by tests/adk/stubs.py

from flowloom.config import ToolArgsConfig
from flowloom.config import ToolConfig

__all__ = [
    "ToolArgsConfig",
    "ToolConfig",
]
