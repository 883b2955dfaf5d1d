# made from table.py by tests/adk/stubs.py

from flowloom.protocols.a2a import to_a2a

__all__ = [
    "to_a2a",
]
