"""Artifacts: versioned files that belong to a session or to a user.

It imports `events` and the rooms below. Begin with `service.py`: what every store of artifacts does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.artifacts.in_memory import InMemoryArtifactService
from flowloom.artifacts.service import BaseArtifactService
from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.artifacts.files import FileArtifactService
    from flowloom.artifacts.version import ArtifactVersion

_HOMES = {
    "files": "FileArtifactService",
    "version": "ArtifactVersion",
}

__all__ = [
    "ArtifactVersion",
    "BaseArtifactService",
    "FileArtifactService",
    "InMemoryArtifactService",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
