"""Addresses: as they may be shown, and whether two are of one origin.

An address may hold a password or a key: what is logged, raised or put into a span is `shown_address` of it.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def shown_address(url: str) -> str:
    """`url` without user, password, query and fragment."""
    parts = _split(url)
    if parts is None or not parts.netloc:
        return url.partition("?")[0].partition("#")[0].rpartition("@")[2]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@lru_cache(64)
def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of `url`; what tells whether a credential that is meant for one may go to another."""
    parts = _split(url)
    if parts is None:
        return "", "", None
    scheme = parts.scheme.lower()
    try:
        port = parts.port
    except ValueError:
        port = None
    return scheme, (parts.hostname or "").lower().rstrip("."), port or _PORTS.get(scheme)


def is_same_origin(url: str, other: str) -> bool:
    """Whether `url` and `other` have scheme, host and port in common."""
    origin = origin_of(url)
    return bool(origin[1]) and origin == origin_of(other)


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None
