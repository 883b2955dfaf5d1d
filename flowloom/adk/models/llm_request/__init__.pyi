# made from table.py by tests/adk/stubs.py

from flowloom.models import LlmRequest

__all__ = [
    "LlmRequest",
]
