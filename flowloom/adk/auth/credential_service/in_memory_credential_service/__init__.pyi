# made from table.py by tests/adk/stubs.py

from flowloom.auth import InMemoryCredentialService

__all__ = [
    "InMemoryCredentialService",
]
