# made from table.py by tests/adk/stubs.py

from flowloom.auth import BaseCredentialService

__all__ = [
    "BaseCredentialService",
]
