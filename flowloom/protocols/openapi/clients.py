"""The HTTP clients of a toolset: one pool of connections for each event loop (protocols spec §0, One owner; §3).

This module needs the extra `openapi`, and is loaded in a thread with the first request. Requests go past the library's
own client: it would log their addresses, and keep the cookies of one user for the next.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize

from flowloom.extras import missing_extra
from flowloom.protocols.addresses import origin_of
from flowloom.protocols.guarded import guarded_transport
from flowloom.protocols.loading import in_thread
from flowloom.protocols.targets import check_host, checked_addresses

try:
    import httpx2
except ImportError as error:
    raise missing_extra("Calls of REST APIs need an HTTP client", "openapi", error) from error

_NO_TIMEOUT = {"connect": None, "read": None, "write": None, "pool": None}  # the call as a whole has one


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as it is sent."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = field(repr=False)
    content: bytes | None = field(repr=False)

    @property
    def in_bytes(self) -> list[tuple[bytes, bytes]]:
        """The headers as they go over the wire."""
        return [(name.encode(), value.encode("utf-8", "replace")) for name, value in self.headers]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: its status, its headers by lower-case name, and its body."""

    status: int
    reason: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    is_cut: bool = False
    """Whether there was more than was read."""

    @property
    def media(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Clients:
    """Sends requests, over connections that are kept for the next ones.

    Hosts that are not public are refused unless `allow_private`; `verify` is as of `guarded_transport`. `factory` makes
    clients of the program's own, of `httpx2` or `httpx`: one for each event loop and origin.
    """

    def __init__(
        self, *, allow_private: bool, verify: bool | str | ssl.SSLContext, factory: Callable[[], Any] | None
    ) -> None:
        self._allow_private, self._verify, self._factory = allow_private, verify, factory
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()
        finalize(self, _let_go, self._pools).atexit = False

    async def send(self, request: Request, limit: int) -> Answer:
        """The answer to a request, of whose body at most `limit` bytes are read.

        Raises `AddressRefusedError` for a host that may not be reached, and the errors of the library.
        """
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None or pool.closing.is_set():
            connect = partial(_connected, self._allow_private, self._verify, self._factory)
            pool = self._pools[loop] = _Pool(connect)
        target = urlsplit(request.url)
        if not self._allow_private:
            check_host(target.hostname or "")  # also spellings that the library does not read
        transport = await pool.transport()
        if self._factory is not None:
            return await self._send_by_client(pool, request, limit)
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        sent = httpx2.Request(
            request.method,
            _base(target.scheme, target.netloc),
            headers=request.in_bytes,
            content=request.content,
            extensions={"timeout": _NO_TIMEOUT, "target": path.encode("ascii")},
        )
        return await _read(await transport.handle_async_request(sent), limit)

    async def _send_by_client(self, pool: _Pool, request: Request, limit: int) -> Answer:
        """Send by a client of the program's own, to an address that was checked."""
        assert self._factory is not None
        origin = origin_of(request.url)
        if origin not in pool.clients:
            client = self._factory()
            pool.clients[origin] = client, client.cookies
        client, cookies = pool.clients[origin]
        kept = type(cookies)(cookies)
        host = origin[1]
        addresses = [] if self._allow_private else await checked_addresses(host, origin[2] or 443)
        headers, extensions = request.in_bytes, {}
        url = request.url
        if addresses:
            parts = urlsplit(url)
            address = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
            url = parts._replace(netloc=f"{address}:{parts.port}" if parts.port else address).geturl()
            headers = [(b"Host", parts.netloc.encode()), *headers]
            extensions = {"sni_hostname": host}
        sent = client.build_request(
            request.method, url, headers=headers, content=request.content, extensions=extensions
        )
        answer = await client.send(sent, stream=True, follow_redirects=False)
        client.cookies = kept  # what a server sets is no other user's
        return await _read(answer, limit)

    async def close(self) -> None:
        """Close all connections; a second time does nothing."""
        own = self._pools.pop(asyncio.get_running_loop(), None)
        _let_go(self._pools)
        if own is not None:
            await own.close()


async def _connected(allow_private: bool, verify: bool | str | ssl.SSLContext, factory: Any) -> Any:
    """What connects; None for a `factory` whose clients do."""
    if factory is not None:
        return None
    return await in_thread(lambda: guarded_transport(httpx2, allow_private=allow_private, verify=verify))


def _let_go(pools: MutableMapping[asyncio.AbstractEventLoop, _Pool]) -> None:
    """Have the connections of other event loops closed there."""
    for loop, pool in [*pools.items()]:
        if not loop.is_closed():
            with suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(pool.closing.set)
    pools.clear()


_keepers: set[asyncio.Task[None]] = set()
"""The tasks that own connections. An event loop forgets a task that nothing else knows, in the middle of its work."""


class _Pool:
    """The connections of one event loop. One task opens and closes them; it ends with the loop at the latest, or when
    the `Clients` are dropped."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.closing = asyncio.Event()
        self.clients: dict[Any, tuple[Any, Any]] = {}
        self._connect = connect
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="flowloom:openapi")
        _keepers.add(self._keeper)
        self._keeper.add_done_callback(_keepers.discard)

    async def transport(self) -> Any:
        """The transport, once it is there."""
        return await asyncio.shield(self._opened)

    async def _keep(self) -> None:
        transport: Any = None
        try:
            transport = await self._connect()
            self._opened.set_result(transport)
            await self.closing.wait()
        except Exception as error:
            self._opened.set_exception(error)
            self._opened.exception()  # those who wait for it are told; without any it is no one's
            self.closing.set()
        finally:
            self._opened.cancel()
            if transport is not None:
                await transport.aclose()
            for client, _ in self.clients.values():
                await client.aclose()

    async def close(self) -> None:
        """Close all, and return when that is done."""
        self.closing.set()
        await asyncio.shield(asyncio.gather(self._keeper, return_exceptions=True))


@lru_cache(64)
def _base(scheme: str, netloc: str) -> httpx2.URL:
    """Where requests go to; the library takes its time to read an address, and what is asked for is told besides."""
    return httpx2.URL(f"{scheme}://{netloc}/")


async def _read(answer: Any, limit: int) -> Answer:
    """An answer with its body, of which at most `limit` bytes are read."""
    body = bytearray()
    try:
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > limit:
                break
    finally:
        await answer.aclose()
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Answer(answer.status_code, answer.reason_phrase, headers, bytes(body[:limit]), len(body) > limit)
