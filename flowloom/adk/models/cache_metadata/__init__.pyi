# made from table.py by tests/adk/stubs.py

from flowloom.models import CacheMetadata

__all__ = [
    "CacheMetadata",
]
