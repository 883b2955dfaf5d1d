"""A server at an address: the SDK's transports over an HTTP client that tells which status an answer had."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from flowloom.auth.bounded import bound
from flowloom.errors import ConfigurationError
from flowloom.protocols.mcp.parameters import MAX_MESSAGE_BYTES, SseConnectionParams, StreamableHTTPConnectionParams


@dataclass
class Refusal:
    """What an HTTP answer said that was no success."""

    status: int
    challenge: str | None = None
    """The `WWW-Authenticate` header."""
    retry_after: float | None = None


@dataclass
class Exchange:
    """What is known of the HTTP requests that were made for one request of the protocol."""

    refusal: Refusal | None = None
    session: str | None = None
    """The session that the server has begun."""


exchange: ContextVar[Exchange | None] = ContextVar("flowloom_mcp_exchange", default=None)
"""What the requests of the current call are noted in: the SDK sends each in the context of whoever asked for it."""


@asynccontextmanager
async def http_streams(
    params: StreamableHTTPConnectionParams | SseConnectionParams, headers: Mapping[str, str]
) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams of a server at an address; `headers` go with every request, besides those of `params`."""
    sent = {**(params.headers or {}), **headers}
    timeout = httpx2.Timeout(params.timeout, read=params.sse_read_timeout)
    if isinstance(params, SseConnectionParams):

        def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
            return _client(params, headers, timeout)

        async with sse_client(params.url, sent, params.timeout, params.sse_read_timeout, factory) as streams:
            yield streams
        return
    async with (
        _client(params, sent, timeout) as client,
        streamable_http_client(
            params.url, http_client=client, terminate_on_close=params.terminate_on_close, max_sse_event_size=None
        ) as streams,
    ):
        yield streams


def _client(
    params: StreamableHTTPConnectionParams | SseConnectionParams, headers: Any, timeout: httpx2.Timeout
) -> httpx2.AsyncClient:
    made: Any
    if params.httpx_client_factory is None:
        made = httpx2.AsyncClient(headers=headers, timeout=timeout)
    else:
        made = params.httpx_client_factory(headers=headers, timeout=timeout, auth=None)
    if not isinstance(made, httpx2.AsyncClient):
        raise ConfigurationError(
            f"`httpx_client_factory` gave a {type(made).__module__}.{type(made).__name__}, but the MCP SDK speaks "
            f"through an `httpx2.AsyncClient`."
        )
    made.event_hooks = {**made.event_hooks, "response": [*made.event_hooks.get("response", ()), _noted]}
    return made


async def _noted(response: httpx2.Response) -> None:
    bound(response, MAX_MESSAGE_BYTES)
    known = exchange.get()
    if known is None:
        return
    headers = response.headers
    known.session = headers.get("mcp-session-id") or known.session
    if response.status_code >= 400:
        after = _seconds(headers.get("retry-after"))
        known.refusal = Refusal(response.status_code, headers.get("www-authenticate"), after)


def _seconds(text: str | None) -> float | None:
    """A `Retry-After` header in seconds; a date is not waited for."""
    return float(text) if text is not None and text.isdecimal() else None
