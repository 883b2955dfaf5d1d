# made from table.py by tests/adk/stubs.py

from flowloom.models import BaseLlm

__all__ = [
    "BaseLlm",
]
