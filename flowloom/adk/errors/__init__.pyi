# made from table.py by tests/adk/stubs.py

from flowloom.errors import AlreadyExistsError
from flowloom.errors import InputValidationError
from flowloom.errors import InvocationNotFoundError
from flowloom.errors import SessionNotFoundError

__all__ = [
    "AlreadyExistsError",
    "InputValidationError",
    "InvocationNotFoundError",
    "SessionNotFoundError",
]
