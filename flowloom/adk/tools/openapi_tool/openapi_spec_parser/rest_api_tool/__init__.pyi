# made from table.py by tests/adk/stubs.py

from flowloom.protocols.openapi import RestApiTool

__all__ = [
    "RestApiTool",
]
