"""What is for callers on this machine alone (server spec §3)."""

from __future__ import annotations

from fastapi import Request

from flowloom.asgi.hosts import is_local
from flowloom.server.problems import ProblemError


async def local_writes(request: Request) -> None:
    """Raise `ProblemError` (403) for a write that does not come straight from this machine (server spec §3)."""
    if request.method not in ("GET", "HEAD"):
        await local_only(request)


async def local_only(request: Request) -> None:
    """Raise `ProblemError` (403) for a request that does not come straight from this machine."""
    if not is_local(request.scope):
        raise ProblemError(403, "forbidden", "Only this machine may do that, and not through a proxy.")
