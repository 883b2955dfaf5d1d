"""How the connection to a remote agent is (protocols spec §0, Observability)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """How the connection to a remote agent is, as its `status()` tells."""

    state: Literal["idle", "connected", "failed"]
    """`connected` once its card is there, `failed` when the latest attempt to ask it has failed."""
    skills: int | None = None
    """How many skills its card tells of; None before the card is there."""
    last_error: str | None = None
    """What went wrong last, without secrets."""
    reconnects: int = 0
    """How often its service has been called in another way than before, as its card had changed."""
    seconds_since_card: float | None = None
    """How long ago the card was fetched, or found to be as it was; None for one that was given, and before."""
