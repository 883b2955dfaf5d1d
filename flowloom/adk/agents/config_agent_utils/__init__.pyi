# made from table.py by tests/adk/stubs.py

from flowloom.config import from_config

__all__ = [
    "from_config",
]
