# made from table.py by tests/adk/stubs.py

from flowloom.plugins import LoggingPlugin

__all__ = [
    "LoggingPlugin",
]
