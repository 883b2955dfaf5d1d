"""Artifacts: versioned files that belong to a session or to a user."""

from flowloom.artifacts.in_memory import InMemoryArtifactService
from flowloom.artifacts.service import USER_PREFIX, ArtifactVersion, BaseArtifactService, owning_session, private_part

__all__ = [
    "USER_PREFIX",
    "ArtifactVersion",
    "BaseArtifactService",
    "InMemoryArtifactService",
    "owning_session",
    "private_part",
]
