"""HTTP connections to public hosts only (protocols spec §3, SSRF).

`guarded_transport` makes a transport for `httpx2` or `httpx` that connects to addresses which were checked: a name is
looked up once for each connection, by `checked_addresses`, and TLS is still asked for the name. As the transport of a
client it holds for each hop of a redirect. Proxies of the environment are used; what goes through one is checked by its
name.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn
from urllib.request import getproxies, proxy_bypass

from flowloom.protocols.spans import protocol_span
from flowloom.protocols.targets import NONE, Kinds, check_host, checked_addresses

MAX_CONNECTIONS = 100
IDLE_SECONDS = 5.0
"""How long a connection is kept for the next request; servers close theirs after about as long."""


def guarded_transport(
    library: ModuleType, *, allow_private: bool | Kinds = False, verify: bool | str | ssl.SSLContext = True
) -> Any:
    """A transport of `library` (`httpx2` or `httpx`) that refuses other hosts than public ones.

    It refuses none if `allow_private` is True, and not those of the kinds that it names.
    `verify` says how certificates are checked: as the system does (True), not at all (False), by a file or folder of
    certificates, or by an `ssl.SSLContext`. Reading certificates takes some 50 ms, once: make it in a thread.
    Its requests raise `AddressRefusedError`, and the library's own errors.
    """
    return _Transport(library, import_module(library.__name__.replace("httpx", "httpcore")), allow_private, verify)


def tls_context(library: Any, verify: bool | str | ssl.SSLContext) -> ssl.SSLContext:
    """The TLS settings that `verify` stands for, as of `guarded_transport`."""
    if isinstance(verify, str):
        context = ssl.create_default_context()
        context.load_verify_locations(**_certificates(verify))
        return context
    return _plain_context(library, verify) if isinstance(verify, bool) else verify


@cache
def _plain_context(library: Any, verify: bool) -> ssl.SSLContext:
    return library.create_ssl_context(verify=verify)


def _certificates(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb"):
            return {"cafile": path}
    except IsADirectoryError:
        return {"capath": path}


class _Transport:
    def __init__(
        self, library: Any, core: Any, allow_private: bool | Kinds, verify: bool | str | ssl.SSLContext
    ) -> None:
        self._library, self._core, self._allow_private = library, core, allow_private
        self._tls = tls_context(library, verify)
        self._pool = core.AsyncConnectionPool(
            ssl_context=self._tls,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=20,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=_Backend(core.AnyIOBackend(), core, allow_private),
        )
        self._proxies = getproxies()
        self._proxied: dict[str, Any] = {}

        class Stream(library.AsyncByteStream):
            """The bytes of an answer, with the library's errors."""

            def __init__(self, inner: Any) -> None:
                self._inner = inner

            async def __aiter__(self) -> AsyncIterator[bytes]:
                try:
                    async for piece in self._inner:
                        yield piece
                except Exception as error:
                    _raise(library, core, error)

            async def aclose(self) -> None:
                if hasattr(self._inner, "aclose"):
                    await self._inner.aclose()

        self._stream = Stream

    async def handle_async_request(self, request: Any) -> Any:
        url = request.url
        proxy = self._proxy(url.scheme, url.host)
        if proxy is not None:
            if self._allow_private is not True:
                check_host(url.host, self._allow_private or NONE)
            return await proxy.handle_async_request(request)
        core = self._core
        sent = core.Request(
            method=request.method,
            url=core.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            answer = await self._pool.handle_async_request(sent)
        except Exception as error:
            _raise(self._library, core, error)
        return self._library.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=self._stream(answer.stream),
            extensions=answer.extensions,
        )

    def _proxy(self, scheme: str, host: str) -> Any:
        """The transport by way of the environment's proxy for such an address; None without one."""
        address = self._proxies.get(scheme) or self._proxies.get("all")
        if not address or proxy_bypass(host):
            return None
        if address not in self._proxied:
            self._proxied[address] = self._library.AsyncHTTPTransport(proxy=address, verify=self._tls, trust_env=False)
        return self._proxied[address]

    async def __aenter__(self) -> _Transport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()
        for each in self._proxied.values():
            await each.aclose()


class _Backend:
    """Connects to addresses that were checked."""

    def __init__(self, backend: Any, core: Any, allow_private: bool | Kinds) -> None:
        self._backend, self._core, self._allow_private = backend, core, allow_private

    async def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        with protocol_span("connect", {"server.address": host, "server.port": port}):
            return await self._connected(host, port, options)

    async def _connected(self, host: str, port: int, options: dict[str, Any]) -> Any:
        try:
            addresses = await checked_addresses(host, port, allow_private=self._allow_private)
        except OSError as error:
            raise self._core.ConnectError(str(error)) from error
        failed: Exception | None = None
        for address in addresses:
            try:
                return await self._backend.connect_tcp(address, port, **options)
            except (self._core.ConnectError, self._core.ConnectTimeout) as error:
                failed = error
        raise failed or self._core.ConnectError("The host has no address.")

    async def connect_unix_socket(self, path: str, **options: Any) -> Any:
        raise self._core.ConnectError("No socket of this machine is connected to.")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


def _raise(library: Any, core: Any, error: Exception) -> NoReturn:
    """Raise the library's error of the same name, if `error` is one of its connections'; else `error` itself."""
    own = type(error).__module__.partition(".")[0] == core.__name__
    kind = getattr(library, type(error).__name__, None) if own else None
    if kind is None:
        raise error
    raise kind(str(error)) from error
