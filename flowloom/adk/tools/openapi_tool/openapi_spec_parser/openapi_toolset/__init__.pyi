# made from table.py by tests/adk/stubs.py

from flowloom.protocols.openapi import OpenAPIToolset

__all__ = [
    "OpenAPIToolset",
]
