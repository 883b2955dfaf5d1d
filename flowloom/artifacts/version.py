"""`ArtifactVersion`: what stands beside a stored file. Loaded with the first artifact."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from flowloom.events.clock import now
from flowloom.events.wire import WireModel


class ArtifactVersion(WireModel):
    """What is known about one stored version of a file."""

    version: int
    canonical_uri: str = ""
    """Where the data is: an address of the service, or the file's own URI for file data."""
    custom_metadata: dict[str, Any] = Field(default_factory=dict)
    create_time: float = Field(default_factory=now)
    """Epoch seconds."""
    mime_type: str | None = None
