# made from table.py by tests/adk/stubs.py

from flowloom.artifacts import BaseArtifactService
from flowloom.artifacts import FileArtifactService
from flowloom.artifacts import InMemoryArtifactService

__all__ = [
    "BaseArtifactService",
    "FileArtifactService",
    "InMemoryArtifactService",
]
