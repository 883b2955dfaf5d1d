# made from table.py by tests/adk/stubs.py

from flowloom.events import LlmResponse

__all__ = [
    "LlmResponse",
]
