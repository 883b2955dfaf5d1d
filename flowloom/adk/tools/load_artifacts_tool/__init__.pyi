# made from table.py by tests/adk/stubs.py

from flowloom.tools import LoadArtifactsTool
from flowloom.tools import load_artifacts as load_artifacts_tool

__all__ = [
    "LoadArtifactsTool",
    "load_artifacts_tool",
]
