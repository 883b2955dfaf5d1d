"""Where an operation is sent: its servers and their variables (protocols spec §3, Servers)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

from flowloom.errors import ConfigurationError, closest_first, quoted_list
from flowloom.protocols.addresses import shown_address
from flowloom.protocols.openapi.schemas import DescriptionError

_VARIABLE = re.compile(r"\{([^{}]*)\}")
NO_ADDRESS = "its server is given without a host: `base_url` says where that is"


def server_of(levels: Iterable[Any], variables: Mapping[str, str], base: str | None) -> str:
    """The address of the first server of the first of `levels` that has any (of the operation, the path, the document).

    `variables` are values in place of the defaults; a relative address goes on from `base`, and stays relative without
    one. Raises `DescriptionError` for an address that cannot be used, `ConfigurationError` for a value that is not
    among those that a variable may have.
    """
    for servers in levels:
        if isinstance(servers, list) and servers:
            return _address(cast(list[Any], servers)[0], variables, base)
    return _address({"url": "/"}, variables, base)


def check_variables(servers: Iterable[Any], given: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` for a name in `given` that is no variable of any of the `servers`."""
    known = {name for server in servers for name in _variables(server)}
    for name in given:
        if name not in known:
            names = quoted_list(closest_first(name, known))
            raise ConfigurationError(f"`server_variables` has `{name}`, but the document's servers have: {names}.")


def _address(server: Any, variables: Mapping[str, str], base: str | None) -> str:
    url = cast(dict[str, Any], server).get("url") if isinstance(server, dict) else None
    if not isinstance(url, str):
        raise DescriptionError("a server has no `url`")
    known = _variables(server)
    filled = _VARIABLE.sub(lambda match: _value(match[1], known.get(match[1]), variables), url)
    address = urljoin(base, filled) if base else filled
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise DescriptionError(f"the server `{shown_address(filled)[:200]}` has no usable address") from error
    if not parts.scheme and not parts.netloc:
        return address.partition("?")[0].partition("#")[0]
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise DescriptionError(f"the server `{shown_address(address)[:200]}` is none of http or https")
    if "@" in parts.netloc:
        raise DescriptionError(f"the server `{shown_address(address)[:200]}` is given with a user: use a credential")
    return f"{parts.scheme.lower()}://{parts.netloc}{parts.path}"


def _value(name: str, variable: Any, given: Mapping[str, str]) -> str:
    """What a variable of a server's address stands for."""
    held = cast(dict[str, Any], variable) if isinstance(variable, dict) else {}
    value = given.get(name, held.get("default"))
    if value is None:
        raise DescriptionError(f"the variable `{name}` of its server has no default: `server_variables` gives it")
    allowed = held.get("enum")
    if isinstance(allowed, list) and allowed:
        texts = [str(each) for each in cast(Sequence[Any], allowed)]
        if str(value) not in texts:
            known = quoted_list(closest_first(str(value), texts))
            raise ConfigurationError(f"The variable `{name}` of a server is {value!r}, but may be {known}.")
    return str(value)


def _variables(server: Any) -> dict[str, Any]:
    held = cast(dict[str, Any], server).get("variables") if isinstance(server, dict) else None
    return cast(dict[str, Any], held) if isinstance(held, dict) else {}


def servers_of(document: Mapping[str, Any]) -> Iterator[Any]:
    """All servers of a document: its own, and those of paths and operations."""
    holders: list[Any] = [document]
    paths = document.get("paths")
    for item in cast(dict[str, Any], paths).values() if isinstance(paths, dict) else ():
        if isinstance(item, dict):
            holders.append(item)
            holders.extend(cast(dict[str, Any], item).values())
    for holder in holders:
        servers = cast(dict[str, Any], holder).get("servers") if isinstance(holder, Mapping) else None
        if isinstance(servers, list):
            yield from cast(list[Any], servers)
