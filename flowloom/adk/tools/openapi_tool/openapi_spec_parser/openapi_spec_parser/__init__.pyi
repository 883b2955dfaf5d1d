# made from table.py by tests/adk/stubs.py

from flowloom.protocols.openapi import OperationEndpoint

__all__ = [
    "OperationEndpoint",
]
