# made from table.py by tests/adk/stubs.py

from flowloom.errors import InvocationNotFoundError

__all__ = [
    "InvocationNotFoundError",
]
