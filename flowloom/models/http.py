"""The HTTP side of the adapters: one connection pool for each event loop, and one policy for all of them.

A provider's SDK builds and signs the requests and reports what is refused; it is given a `LoopClient` to send with. A
connection has to stand within 10 s, nothing is sent on to another server, and no body is read that is larger than
64 MiB once it is unpacked. How long a server may be silent is the models' `timeout`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import inspect
import os
import re
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any

from flowloom.errors import ModelRequestError, ModelResponseError

if TYPE_CHECKING:
    import httpx2 as httpx

    _libraries = [httpx]
else:
    # The library has two names, and SDKs take the clients of both: a caller's client may be of the other.
    _libraries = []
    for _name in ("httpx2", "httpx"):
        with contextlib.suppress(ImportError):
            _libraries.append(importlib.import_module(_name))
    httpx = _libraries[0]

__all__ = [
    "ADDRESS_ERRORS",
    "DECODING_ERRORS",
    "LOCAL_ERRORS",
    "MAX_BODY_BYTES",
    "NETWORK_ERRORS",
    "TIMEOUT_ERRORS",
    "TOO_LARGE",
    "LoopClient",
    "HIDDEN",
    "default_tls",
    "httpx",
    "is_private",
    "load_transport",
    "sent_secrets",
    "whole_body",
]

TIMEOUT_ERRORS: tuple[type[Exception], ...] = (TimeoutError, *(library.TimeoutException for library in _libraries))
"""The provider was silent for too long."""
NETWORK_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, *(library.TransportError for library in _libraries))
"""The network failed, time-outs included; `LOCAL_ERRORS` are some of them."""
LOCAL_ERRORS: tuple[type[Exception], ...] = tuple(
    error for library in _libraries for error in (library.UnsupportedProtocol, library.LocalProtocolError)
)
"""The request is at fault; trying again does not help."""
ADDRESS_ERRORS: tuple[type[Exception], ...] = tuple(library.InvalidURL for library in _libraries)
"""An address cannot be read."""
DECODING_ERRORS: tuple[type[Exception], ...] = tuple(library.DecodingError for library in _libraries)
"""The body is not in the encoding that its headers name."""

CONNECT_SECONDS = 10.0
"""How long a connection to a provider may take to be made."""
MAX_BODY_BYTES = 64 << 20
"""The largest body of an answer, unpacked, whether it comes at once or as a stream."""
TOO_LARGE = "TOO_LARGE"
"""`code` of an error whose cause is the size of an answer."""
_MAX_REDIRECTS = 20
_PORTS = {"http": 80, "https": 443}
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")
_PRIVATE = re.compile(r"auth|key|token|secret|cookie|passw|credential|^x-(?!stainless-|goog-api-client)", re.IGNORECASE)
_SHORTEST_SECRET = 8
HIDDEN = "<redacted>"
"""What stands in the place of a secret."""

_Held = tuple[httpx.AsyncClient, AsyncGenerator[None, None]]
_CLIENT_ARGUMENTS = frozenset(inspect.signature(httpx.AsyncClient).parameters)


@functools.cache
def default_tls() -> ssl.SSLContext:
    """The TLS settings of the process, made once: reading the certificates takes tens of milliseconds."""
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or directory:
        return ssl.create_default_context(cafile=file, capath=directory)
    return httpx.create_ssl_context()


@functools.cache
def load_transport() -> None:
    """Import what the HTTP library otherwise imports during the first request."""
    httpx.AsyncHTTPTransport(verify=default_tls())
    for name in ("anyio._backends._asyncio", "h11", "concurrent.futures.thread"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class LoopClient(httpx.AsyncClient):
    """An HTTP client that can be used from several event loops, at once or one after another.

    Connections belong to the loop that opened them. Each loop gets a pool, which is closed when the loop shuts
    down its asynchronous generators, as `asyncio.run` does at its end; or by `aclose()`, after which the
    client may be used on. `arguments` are those of `AsyncClient`, for the pools. With `given`, that client
    sends, and is the caller's to close.
    """

    silence: float | None = None
    """How long a server may be silent, in seconds, where a request says nothing of it; None for any time."""

    def __init__(self, arguments: Mapping[str, Any] | None = None, given: httpx.AsyncClient | None = None) -> None:
        super().__init__(transport=httpx.AsyncBaseTransport())  # this object itself sends nothing
        known = {name: value for name, value in (arguments or {}).items() if name in _CLIENT_ARGUMENTS}
        self._arguments: dict[str, Any] = {
            "timeout": None,  # each request has its own
            "limits": httpx.Limits(max_keepalive_connections=100),  # as many as there are calls at once
            **known,
        }
        self._given = given
        self._held: dict[asyncio.AbstractEventLoop, _Held] = {}
        # An SDK's client and this one are found by the garbage collector together, with all that only they hold. The
        # pools are held from here as well: they are let go then, and closed by their loops.
        weakref.finalize(self, self._held.clear).atexit = False

    def build_request(self, *args: Any, **kwargs: Any) -> httpx.Request:
        """The request as the client that will send it builds it."""
        if self._given is not None:
            return self._given.build_request(*args, **kwargs)
        return super().build_request(*args, **kwargs)

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """Send through the running loop's pool. Only a good answer (200) is given unread, if `stream` asks for it.

        Raises `ModelRequestError` for an answer that sends to another server, `ModelResponseError` for a body that is
        too large.
        """
        client = self._given or await self._client_of_loop()
        options["follow_redirects"] = False
        for _ in range(_MAX_REDIRECTS + 1):
            self._limit_waiting(request)
            response = await client.send(request, stream=True, **options)
            if stream and response.status_code == 200:
                return response
            try:
                _check_redirect(request, response.next_request)
                body = await whole_body(response.aiter_bytes())
            finally:
                await response.aclose()
            if response.next_request is None:
                headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_WIRE]
                if response.status_code >= 400:  # it is told in errors, and may quote what it was sent
                    for secret in sent_secrets(request):
                        body = body.replace(secret.encode(), HIDDEN.encode())
                return type(response)(response.status_code, headers=headers, content=body, request=request)
            request = response.next_request
        raise ModelRequestError(f"{_server(request.url)} sends on and on, more than {_MAX_REDIRECTS} times.")

    def _limit_waiting(self, request: httpx.Request) -> None:
        limits: dict[str, float | None] = dict(request.extensions.get("timeout") or {})
        for name in ("read", "write", "pool"):
            if limits.get(name) is None:
                limits[name] = self.silence
        limits["connect"] = min(limits.get("connect") or CONNECT_SECONDS, CONNECT_SECONDS)
        request.extensions = {**request.extensions, "timeout": limits}

    async def aclose(self) -> None:
        """Close the pools of this loop, and of other loops that run."""
        running = asyncio.get_running_loop()
        for loop in list(self._held):
            _, keeper = self._held.pop(loop, (None, None))
            if keeper is None:
                continue
            if loop is running:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_close(keeper), loop)

    async def _client_of_loop(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is not None and not held[0].is_closed:
            return held[0]
        for other in [other for other in list(self._held) if other.is_closed()]:
            self._held.pop(other, None)
        self._arguments.setdefault("verify", default_tls())
        client = httpx.AsyncClient(**self._arguments)
        keeper = _keep_open(client)
        self._held[loop] = (client, keeper)
        await anext(keeper)
        return client


def is_private(name: str) -> bool:
    """Whether a header or a parameter of this name may hold a secret: what is named like one, and unusual headers."""
    return _PRIVATE.search(name) is not None


def sent_secrets(request: httpx.Request) -> list[str]:
    """What a request holds that no text may tell, the longest first."""
    given = [*request.headers.multi_items(), *request.url.params.multi_items()]
    values = [value for name, value in given if is_private(name)]
    words = {word for value in values for word in (value, value.partition(" ")[2]) if len(word) >= _SHORTEST_SECRET}
    return sorted(words, key=len, reverse=True)


async def whole_body(received: AsyncIterable[bytes]) -> bytes:
    """All bytes of an answer. Raises `ModelResponseError` if they are more than `MAX_BODY_BYTES`."""
    parts: list[bytes] = []
    size = 0
    async for part in received:
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise ModelResponseError(
                f"The answer of the model's server is larger than {MAX_BODY_BYTES >> 20} MiB, unpacked. It was not "
                f"read to its end.",
                code=TOO_LARGE,
            )
        parts.append(part)
    return b"".join(parts)


def _check_redirect(request: httpx.Request, following: httpx.Request | None) -> None:
    """Raise `ModelRequestError` if an answer sends to another server, or from a safe connection to an open one."""
    if following is None or _server(following.url) == _server(request.url):
        return
    old, new = request.url, following.url
    if (old.scheme, new.scheme) == ("http", "https") and old.host == new.host and old.port is new.port is None:
        return
    raise ModelRequestError(
        f"The model's server {_server(old)} sends to another one, {_server(new)}. Neither key nor contents were sent "
        f"there: if that is where they belong, name it as the `base_url`.",
        code="REDIRECT",
    )


def _server(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.host}:{url.port or _PORTS.get(url.scheme)}"


async def _keep_open(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Closes `client` when the generator is closed, which the event loop does with all generators that it knows."""
    try:
        yield
    finally:
        await client.aclose()


async def _close(keeper: AsyncGenerator[None, None]) -> None:
    await keeper.aclose()
