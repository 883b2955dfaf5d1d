# made from table.py by tests/adk/stubs.py

from flowloom.tools import GoogleSearchTool
from flowloom.tools import google_search

__all__ = [
    "GoogleSearchTool",
    "google_search",
]
