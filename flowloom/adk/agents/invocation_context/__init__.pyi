# made from table.py by tests/adk/stubs.py

from flowloom.context import InvocationContext
from flowloom.errors import LlmCallsLimitExceededError

__all__ = [
    "InvocationContext",
    "LlmCallsLimitExceededError",
]
