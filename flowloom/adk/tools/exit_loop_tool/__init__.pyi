# made from table.py by tests/adk/stubs.py

from flowloom.tools import exit_loop

__all__ = [
    "exit_loop",
]
