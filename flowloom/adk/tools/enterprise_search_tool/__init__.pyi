# made from table.py by tests/adk/stubs.py

from flowloom.tools import EnterpriseWebSearchTool
from flowloom.tools import enterprise_web_search as enterprise_web_search_tool

__all__ = [
    "EnterpriseWebSearchTool",
    "enterprise_web_search_tool",
]
