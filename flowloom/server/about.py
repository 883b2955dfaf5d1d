"""What the server says of itself and its apps (server spec §3, 1 to 5)."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request

from flowloom.server.served import principal_of, served_of

router = APIRouter()


@router.get("/health")
async def health() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/version")
async def versions() -> dict[str, str]:
    """The versions of the server and its language."""
    return {
        "version": version("flowloom"),
        "language": "python",
        "language_version": ".".join(map(str, sys.version_info[:3])),
        "server": "flowloom",
    }


@router.get("/list-apps")
async def list_apps(request: Request) -> Any:
    """The names of the apps that those who ask may use."""
    principal = principal_of(request)
    return [name for name in served_of(request).apps.names() if principal.may_use(name)]
