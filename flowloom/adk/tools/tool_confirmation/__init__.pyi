# made from table.py by tests/adk/stubs.py

from flowloom.events import ToolConfirmation

__all__ = [
    "ToolConfirmation",
]
