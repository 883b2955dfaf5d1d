# made from table.py by tests/adk/stubs.py

from flowloom.models import ContextCacheConfig

__all__ = [
    "ContextCacheConfig",
]
