# made from table.py by tests/adk/stubs.py

from flowloom.models import LLMRegistry

__all__ = [
    "LLMRegistry",
]
