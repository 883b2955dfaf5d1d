# made from table.py by tests/adk/stubs.py

from flowloom.artifacts import InMemoryArtifactService

__all__ = [
    "InMemoryArtifactService",
]
