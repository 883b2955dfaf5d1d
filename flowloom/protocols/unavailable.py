"""What becomes of a run whose toolset cannot be started or listed (protocols spec §0, Errors), and what it reports.

By default such a run ends with a `ToolsetError`. With `on_unavailable="skip"` the error is marked `skipped`: the run
goes on without these tools, after one warning and an event with the error code `TOOLSET_UNAVAILABLE`, which the run
stream shows as `ErrorReported`. The `tools` processor does that: a toolset only raises `toolset_error(...)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flowloom.errors import ConfigurationError, ToolsetError

OnUnavailable = Literal["error", "skip"]


def check_on_unavailable(given: str) -> None:
    """Raise `ConfigurationError` for a value `given` that is neither `error` nor `skip`."""
    if given not in ("error", "skip"):
        raise ConfigurationError(f"`on_unavailable` is {given!r}, but must be 'error' or 'skip'.")


def toolset_error(toolset: str, address: str, reason: str, on_unavailable: OnUnavailable = "error") -> ToolsetError:
    """The error of a `toolset` (the name of its class) at an `address` that may be shown: why it cannot be used.

    `reason` is a sentence without secrets; `on_unavailable` says whether the run is to go on.
    """
    error = ToolsetError(f"{toolset} at {address} is not available: {reason}")
    error.toolset, error.address, error.reason = toolset, address, reason
    error.skipped = on_unavailable == "skip"
    return error


@dataclass(frozen=True, slots=True)
class ToolsetStatus:
    """How a toolset is, as its `status()` tells."""

    state: Literal["idle", "connected", "failed", "closed"]
    """Whether it has a connection now: `idle` before the first, and after one was given back."""
    tools: int | None = None
    """How many tools the latest listing gave; None before the first."""
    last_error: str | None = None
    """What went wrong last, without secrets."""
    reconnects: int = 0
    """How many connections were opened in place of one that broke."""
    seconds_since_listing: float | None = None
    """None before the first listing."""
