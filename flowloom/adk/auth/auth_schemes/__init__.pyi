# made from table.py by tests/adk/stubs.py

from flowloom.auth import AuthScheme

__all__ = [
    "AuthScheme",
]
