# made from table.py by tests/adk/stubs.py

from flowloom.auth import AuthConfig

__all__ = [
    "AuthConfig",
]
