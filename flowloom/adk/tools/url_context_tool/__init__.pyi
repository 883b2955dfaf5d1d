# made from table.py by tests/adk/stubs.py

from flowloom.tools import UrlContextTool
from flowloom.tools import url_context

__all__ = [
    "UrlContextTool",
    "url_context",
]
