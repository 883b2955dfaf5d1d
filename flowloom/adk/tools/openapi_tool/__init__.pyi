# made from table.py by tests/adk/stubs.py

from flowloom.protocols.openapi import OpenAPIToolset
from flowloom.protocols.openapi import RestApiTool

__all__ = [
    "OpenAPIToolset",
    "RestApiTool",
]
