"""Which hosts may be reached when an address comes from a document, a message or a model (protocols spec §3, SSRF).

`checked_addresses` looks a name up once, and gives the addresses that a connection may be made to; `guarded.py`
connects to exactly these. `check_target` is for what connects by itself. Behind a proxy, which looks names up itself,
`check_host` goes by the name alone.
"""

from __future__ import annotations

import socket
import unicodedata
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from flowloom.errors import ToolError
from flowloom.protocols.loading import in_thread

Address = IPv4Address | IPv6Address
Kinds = frozenset[str]
"""Kinds of addresses that are not public, as `refusal_of` calls them."""
NONE: Kinds = frozenset()

_LOCAL_NAMES = ("localhost", "localdomain", "local", "internal", "home.arpa")
_HOSTS_OF_CLOUDS = frozenset({ip_address("168.63.129.16")})
"""Public by its number, and answered by the machine's own host."""
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/96"), IPv6Network("::/96"))
"""What stands for the IPv4 address in its last four bytes."""
_DOTS = str.maketrans("。．｡", "...")


class AddressRefusedError(ToolError):
    """A host is not reached: it is this machine or one of a private network, and that was not allowed."""


async def checked_addresses(host: str, port: int, *, allow_private: bool | Kinds = False) -> list[str]:
    """The addresses of `host`, looked up once, as a connection to `port` may use them.

    Raises `AddressRefusedError` if one of them is no public one, unless `allow_private` is True or names its kind, and
    `OSError` for a name that cannot be found.
    """
    literal = address_in(host)
    if allow_private is not True:
        check_host(host, allow_private or NONE)
    if literal is not None:
        return [str(literal)]
    addresses = await _looked_up(host, port)
    if allow_private is not True:
        for each in addresses:
            _check(ip_address(each), host, allow_private or NONE)
    return addresses


async def kinds_at(host: str, port: int) -> Kinds:
    """The kinds of addresses of `host` that are not public, as `refusal_of` calls them; none if it cannot be found."""
    literal = address_in(host)
    try:
        addresses = [literal] if literal is not None else [*map(ip_address, await _looked_up(host, port))]
    except OSError:
        return NONE
    return frozenset(kind for each in addresses if (kind := refusal_of(each)) is not None)


async def _looked_up(host: str, port: int) -> list[str]:
    bare = _bare(host)
    found = await in_thread(lambda: socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(info[4][0]) for info in found))


async def check_target(url: str, *, allow_private: bool | Kinds = False) -> None:
    """Raise `AddressRefusedError` unless `url` is one of http or https, with a host that may be reached.

    It is for clients that look names up again: between that and this the answer may change. Raises `OSError` for a
    name that cannot be found.
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in ("http", "https") or not host:
        raise AddressRefusedError("The address is not one of http or https with a host.")
    await checked_addresses(host, port or 443, allow_private=allow_private)


def check_host(host: str, allowed: Kinds = NONE) -> None:
    """Raise `AddressRefusedError` if `host`, by its name or number alone, is no public one.

    Addresses of the kinds `allowed` pass; where there are such, a name says nothing.
    """
    literal = address_in(host)
    if literal is not None:
        _check(literal, host, allowed)
        return
    if allowed:
        return
    labels = _bare(host).lower()
    if any(labels == name or labels.endswith(f".{name}") for name in _LOCAL_NAMES):
        raise _refused(host, "a name of this machine or of a private network")


def address_in(host: str) -> Address | None:
    """The address that `host` spells out: with four numbers or fewer, decimal, octal or hexadecimal, also in full-width
    digits; None for a name.
    """
    bare = _bare(host)
    try:
        return ip_address(bare)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(bare)) if bare[:1].isdigit() and " " not in bare else None
    except (OSError, UnicodeError):
        return None


def refusal_of(address: Address) -> str | None:
    """What kind of address it is, if it is no public one; None for a public one."""
    inner = _inner(address)
    if inner is not None and (told := refusal_of(inner)):
        return told
    kinds = {
        "a loopback address": address.is_loopback,
        "a link-local address": address.is_link_local,
        "a multicast address": address.is_multicast,
        "the unspecified address": address.is_unspecified,
        "an address of a cloud's own services": address in _HOSTS_OF_CLOUDS,
        "a private address": address.is_private,
        "no public address": not address.is_global and inner is None,
    }
    return next((kind for kind, applies in kinds.items() if applies), None)


def _inner(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if any(address in network for network in _TRANSLATED) and int(address) > 1:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _check(address: Address, host: str, allowed: Kinds) -> None:
    kind = refusal_of(address)
    if kind is not None and kind not in allowed:
        raise _refused(host, kind)


def _refused(host: str, kind: str) -> AddressRefusedError:
    return AddressRefusedError(f"The host `{host[:100]}` is not reached: it is {kind}.")


def _bare(host: str) -> str:
    """A host without brackets and the dot of the root, in the characters that a resolver would take it for."""
    plain = unicodedata.normalize("NFKC", host.translate(_DOTS))
    return plain.strip().removeprefix("[").removesuffix("]").removesuffix(".")
