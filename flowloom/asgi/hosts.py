"""Which host a request means, and whether it comes from this machine (server spec §8)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from flowloom.asgi.protocol import first_header, header_of

_PORTS = {"http": 80, "https": 443}
_BROWSER_SCHEMES = {"ws": "http", "wss": "https"}


@lru_cache(maxsize=32)
def is_loopback(host: str | None) -> bool:
    """Whether a host, without a port, is this machine and nothing else."""
    if host is None:
        return False
    bare = host.removeprefix("[").removesuffix("]").lower().removesuffix(".")
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=32)
def host_of(authority: str) -> str | None:
    """The host of `host:port`, in lower case and without the dot of the root; None if it is no such thing."""
    found = _split(f"//{authority}")
    return found and found[1]


def origin_of(url: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port of an origin, as they are compared; None for `null` and what is no origin."""
    found = _split(url)
    if found is None or not found[0]:
        return None
    scheme, host, port = found
    return scheme, host, port or _PORTS.get(scheme)


def own_origin(scope: Mapping[str, Any]) -> tuple[str, str, int | None] | None:
    """The origin that a request was sent to: what proxies say of it, else its `Host`; None if it names none."""
    told = _forwarded(scope)
    host = told.get("host") or first_header(scope, "x-forwarded-host") or first_header(scope, "host")
    scheme = told.get("proto") or first_header(scope, "x-forwarded-proto") or scope.get("scheme", "http")
    if not host:
        return None
    scheme = scheme.lower()
    return origin_of(f"{_BROWSER_SCHEMES.get(scheme, scheme)}://{host}")


def is_local(scope: Mapping[str, Any]) -> bool:
    """Whether a request comes straight from this machine: from a loopback address, and through no proxy, behind which
    anybody may stand."""
    for name, _ in scope["headers"]:
        if name in (b"forwarded", b"via", b"x-real-ip") or name.startswith(b"x-forwarded-"):
            return False
    client = scope.get("client")
    return bool(client) and is_loopback(client[0])


def hosts_named(scope: Mapping[str, Any]) -> list[str]:
    """The values of `Host`, several in one line counted as several."""
    return [value.strip() for line in header_of(scope, "host") for value in line.split(",")]


def _forwarded(scope: Mapping[str, Any]) -> dict[str, str]:
    """The pairs of the first element of `Forwarded` (RFC 7239)."""
    element = first_header(scope, "forwarded") or ""
    pairs = (pair.partition("=") for pair in element.split(";"))
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _split(url: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port of a URL that consists of nothing else."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc or not host or url != url.strip():
        return None
    return scheme, host.removesuffix("."), port
