# made from table.py by tests/adk/stubs.py

from flowloom.errors import InputValidationError

__all__ = [
    "InputValidationError",
]
