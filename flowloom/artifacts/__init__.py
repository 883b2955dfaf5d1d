"""Artifacts: versioned files that belong to a session or to a user."""

from flowloom.artifacts.in_memory import InMemoryArtifactService
from flowloom.artifacts.service import ArtifactVersion, BaseArtifactService

__all__ = ["ArtifactVersion", "BaseArtifactService", "InMemoryArtifactService"]
