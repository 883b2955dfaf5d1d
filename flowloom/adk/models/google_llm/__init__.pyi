# made from table.py by tests/adk/stubs.py

from flowloom.models import Gemini

__all__ = [
    "Gemini",
]
