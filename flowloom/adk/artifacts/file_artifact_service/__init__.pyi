# made from table.py by tests/adk/stubs.py

from flowloom.artifacts import FileArtifactService

__all__ = [
    "FileArtifactService",
]
