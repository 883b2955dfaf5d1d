# made from table.py by tests/adk/stubs.py

from flowloom.server import get_fast_api_app

__all__ = [
    "get_fast_api_app",
]
