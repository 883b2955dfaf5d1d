# made from table.py by tests/adk/stubs.py

from flowloom.context import CallbackContext

__all__ = [
    "CallbackContext",
]
