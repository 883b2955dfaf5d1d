# made from table.py by tests/adk/stubs.py

from flowloom.errors import AlreadyExistsError

__all__ = [
    "AlreadyExistsError",
]
