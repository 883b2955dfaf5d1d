"""Addresses: where a card is found, whose a service is, and what may be called without encryption."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from flowloom.asgi.hosts import is_loopback
from flowloom.errors import ConfigurationError
from flowloom.protocols.addresses import origin_of as parts_of

WELL_KNOWN = "/.well-known/agent-card.json"
_FORMER = "/.well-known/agent.json"


def is_address(card: str) -> bool:
    """Whether a text is an address of the web, and not the path of a file."""
    return card.lower().startswith(("http://", "https://"))


def card_addresses(address: str) -> list[str]:
    """Where the card of an agent may be found, in the order tried: `address` is the card's, or the agent's."""
    split = urlsplit(address)
    if split.path.endswith(".json"):
        return [address]
    base = split._replace(query="", fragment="").geturl().rstrip("/")
    return [base + WELL_KNOWN, base + _FORMER]


def origin_of(address: str) -> str:
    """Scheme, host and port of an address, in one spelling: the names of this machine are one host. Raises
    `ConfigurationError` for what is no address of the web."""
    scheme, host, port = parts_of(address)
    if scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"`{address}` is no address of the web: write it as `https://agents.example/billing`.")
    host = "localhost" if is_loopback(host) else host
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def refusal_of(address: str, home: str | None, allowed: Collection[str]) -> str | None:
    """Why an agent's service may not be called at `address`; None if it may.

    `home` is the origin that its card came from, None for a card that was given; `allowed` are other origins.
    """
    try:
        origin = origin_of(address)
    except ConfigurationError as error:
        return str(error).rstrip(".")
    if origin in map(origin_of, allowed):
        return None
    if home is not None and origin != home:
        return f"`{origin}` is not the origin of the card, `{home}`. List it in `allow_origins` if it is meant"
    return None if is_safe(origin) else f"`{origin}` is not encrypted. Use https, or list it in `allow_origins`"


def is_safe(address: str) -> bool:
    """Whether an address is encrypted, or of this machine."""
    return address.lower().startswith("https://") or is_loopback(urlsplit(address).hostname)
