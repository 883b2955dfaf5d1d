# made from table.py by tests/adk/stubs.py

from flowloom.config import LlmAgentConfig

__all__ = [
    "LlmAgentConfig",
]
