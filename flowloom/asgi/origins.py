"""`Origins`: which web pages may use a server, and what CORS tells their browsers (server spec §8)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from flowloom.asgi.hosts import host_of, hosts_named, is_loopback, origin_of, own_origin
from flowloom.asgi.protocol import Message, RejectedError, Scope, Send, header_of
from flowloom.errors import ConfigurationError

_log = logging.getLogger("flowloom.asgi")
_REGEX = "regex:"
_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
_SECONDS_KNOWN = "600"


class Origins:
    """The origins of the pages that may use a server bound to `bind_host`, beside its own, and the names that it is
    asked for by.

    `allowed` has literal origins (`https://chat.example`), `regex:PATTERN` for those that a pattern matches as a whole,
    and `*` for all, which is logged as a warning. `hosts` are names beside those of this machine, or `*` for any; a
    port beside one says nothing. Raises `ConfigurationError` for what is none of these.
    """

    def __init__(self, allowed: Sequence[str], bind_host: str, hosts: Sequence[str] = ()) -> None:
        self.all = "*" in allowed
        self._literal = {_literal(origin) for origin in allowed if origin != "*" and not origin.startswith(_REGEX)}
        self._patterns = [_pattern(origin) for origin in allowed if origin.startswith(_REGEX)]
        any_host = "*" in hosts if hosts else not is_loopback(bind_host)
        self._hosts = None if any_host else frozenset(map(_named, hosts))
        """The names that are taken beside those of this machine; None for any."""
        if self.all:
            _log.warning(
                "`allow_origins` has `*`: every web page that a person opens may use this server, with all that they "
                "may do. List the origins that you know instead."
            )

    def check_host(self, scope: Scope) -> None:
        """Raise `RejectedError`: 400 for a request of HTTP/1.1 without a `Host`; 403 for several, and, unless any is
        taken, for one that is neither loopback nor allowed nor the host of an allowed origin: a name that was pointed
        here (DNS rebinding)."""
        named = hosts_named(scope)
        if len(named) > 1:
            raise RejectedError(403, "host_not_allowed", "The request has several values of `Host`. Send one.")
        if not named and scope.get("http_version") == "1.1":
            raise RejectedError(400, "bad_request", "The request has no `Host`.")
        if not named or self._hosts is None or self.all:
            return
        host = host_of(named[0])
        if is_loopback(host) or host in self._hosts or host in {known[1] for known in self._literal}:
            return
        raise RejectedError(
            403,
            "host_not_allowed",
            "This host is not allowed: the server is bound to this machine alone. List its origin in `allow_origins`, "
            "or bind the server to the address that is meant (`host`).",
        )

    def listed(self, origin: str) -> bool:
        """Whether `origin` is an allowed one, not by being the server's own."""
        if origin == "null":
            return False
        return self.all or origin_of(origin) in self._literal or any(p.fullmatch(origin) for p in self._patterns)

    def check_origin(self, scope: Scope) -> str | None:
        """The listed origin that a request comes from, None for the server's own and for none. Raises `RejectedError`
        (403) for a foreign one."""
        named = header_of(scope, "origin")
        if not named:
            return None
        if len(named) == 1 and self.listed(named[0]):
            return named[0]
        known = origin_of(named[0]) if len(named) == 1 else None
        if known is not None and known == own_origin(scope) and self._is_own(known[1]):
            return None
        raise RejectedError(
            403, "origin_not_allowed", "This origin is not allowed. List it in `allow_origins`, if it is trusted."
        )

    def _is_own(self, host: str) -> bool:
        """Whether a page of this host, which the request was sent to, is the server's own."""
        return is_loopback(host) or self._hosts is None or host in self._hosts


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks what a page of another origin may do."""
    return scope["method"] == "OPTIONS" and bool(header_of(scope, "access-control-request-method"))


async def answer_preflight(scope: Scope, send: Send) -> None:
    """Tell a browser that a page of a listed origin may do what it asks for."""
    wanted = ", ".join(header_of(scope, "access-control-request-headers"))
    headers = {"access-control-allow-methods": _METHODS, "access-control-max-age": _SECONDS_KNOWN}
    headers |= {"access-control-allow-headers": wanted} if wanted else {}
    headers |= {"content-length": "2", "content-type": "text/plain; charset=utf-8"}
    await send({"type": "http.response.start", "status": 200, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": b"OK"})


def with_cors(send: Send, origin: str) -> Send:
    """`send`, with the headers that let a page of `origin` read the answers."""
    added = _encoded({"access-control-allow-origin": origin, "access-control-allow-credentials": "true"})

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() != b"vary"]
            varies = [value for name, value in message.get("headers", ()) if name.lower() == b"vary"]
            message["headers"] = [*headers, *added, (b"vary", b", ".join([*varies, b"Origin"]))]
        await send(message)

    return sending


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _literal(origin: str) -> tuple[str, str, int | None]:
    known = origin_of(origin.removesuffix("/"))
    if known is None:
        raise ConfigurationError(
            f"`{origin}` in `allow_origins` is no origin. Write it as `https://chat.example`, `http://localhost:4200`, "
            f"`regex:PATTERN` for a pattern that origins match as a whole, or `*` for all."
        )
    return known


def _named(host: str) -> str:
    known = host_of(host.strip().removesuffix(":*"))
    if known is None:
        raise ConfigurationError(f"`{host}` is no host. Write its name alone, as `mcp.example`, or `*` for any.")
    return known


def _pattern(origin: str) -> re.Pattern[str]:
    try:
        return re.compile(origin.removeprefix(_REGEX))
    except re.error as error:
        raise ConfigurationError(f"`{origin}` in `allow_origins` is no regular expression: {error}.") from error
