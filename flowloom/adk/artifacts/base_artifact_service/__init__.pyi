# made from table.py by tests/adk/stubs.py

from flowloom.artifacts import ArtifactVersion
from flowloom.artifacts import BaseArtifactService

__all__ = [
    "ArtifactVersion",
    "BaseArtifactService",
]
