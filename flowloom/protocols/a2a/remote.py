"""`Remote`: the connection to a remote agent, in one event loop. This is what loads the SDK (protocols spec §4)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from flowloom.auth.bounded import bound
from flowloom.auth.fields import HIDDEN, secrets_in
from flowloom.errors import error_text
from flowloom.protocols.a2a.cards import BINDINGS, Known, fetched_card, given_card, usable_card
from flowloom.protocols.a2a.failures import RemoteAgentError
from flowloom.protocols.a2a.links import is_address
from flowloom.protocols.a2a.sdk import (
    AgentCard,
    CancelTaskRequest,
    Client,
    ClientCallContext,
    ClientConfig,
    ClientFactory,
    GetTaskRequest,
    SubscribeToTaskRequest,
    httpx,
)
from flowloom.protocols.a2a.status import RemoteStatus

CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A longer answer, or event of a stream, is not read."""
_EXTENSIONS = "A2A-Extensions"
_USUAL = frozenset(
    "host accept accept-encoding connection user-agent content-type content-length a2a-version a2a-extensions "
    "cache-control traceparent tracestate".split()
)
"""Headers that hold nothing secret."""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """What an agent says of its connection; see `RemoteA2aAgent`."""

    name: str
    card: Any
    httpx_client: Any
    client_factory: Any
    timeout: float
    streaming: bool
    allow_origins: Sequence[str]
    extensions: Sequence[str]
    card_check: Any


class Remote:
    """The connection to one agent. It belongs to the event loop that it was made in; `close` ends it."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        self._http: httpx.AsyncClient = settings.httpx_client or httpx.AsyncClient(
            timeout=httpx.Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout))
        )
        self._known: Known | None = None
        self._looking = asyncio.Lock()
        self._client: Client | None = None
        self._served_by: AgentCard | None = None
        """The card that the client was made for."""
        self._reconnects = 0
        self.last_error: str | None = None
        """Why the latest attempt to ask the agent has failed."""

    def status(self) -> RemoteStatus:
        """How the connection is."""
        known = self._known
        state = "failed" if self.last_error else "idle" if known is None else "connected"
        fetched = known is not None and known.origin is not None
        return RemoteStatus(
            state,
            skills=None if known is None else len(known.card.skills),
            last_error=self.last_error,
            reconnects=self._reconnects,
            seconds_since_card=max(0.0, time.monotonic() - known.since) if known is not None and fetched else None,
        )

    async def card(self, headers: Mapping[str, str]) -> AgentCard:
        """The agent's card as it is published, not older than an hour. Raises `RemoteAgentError`,
        `ConfigurationError`."""
        return (await self._known_card(headers)).card

    async def client(self, headers: Mapping[str, str]) -> tuple[Client, AgentCard]:
        """What calls the agent, and the card with the services of it that may be called. Raises `RemoteAgentError`."""
        known = await self._known_card(headers)
        if self._client is None or self._served_by is not known.card:
            settings = self._settings
            usable = usable_card(settings.name, known, settings.allow_origins, settings.extensions)
            self._reconnects += self._served_by is not None
            await self._let_go()
            self._client, self._served_by, self._usable = self._made(usable), known.card, usable
        return self._client, self._usable

    def _made(self, card: AgentCard) -> Client:
        settings = self._settings
        if settings.client_factory is not None:
            return settings.client_factory.create(card)
        streams = settings.streaming and card.capabilities.streaming
        config = ClientConfig(
            streaming=streams,
            polling=not streams,
            httpx_client=_Wire(self._http),  # pyright: ignore[reportArgumentType] - as far as the SDK uses one
            supported_protocol_bindings=[*BINDINGS],
        )
        try:
            return ClientFactory(config).create(card)
        except Exception as error:  # what the SDK makes of a stranger's card
            raise RemoteAgentError(f"Agent `{settings.name}` cannot be called: {error_text(error)}.") from error

    async def _known_card(self, headers: Mapping[str, str]) -> Known:
        async with self._looking:
            known, settings = self._known, self._settings
            if known is None:
                known = given_card(settings.name, settings.card)
            if known is None or not known.fresh:
                known = await fetched_card(settings.name, str(settings.card), self._http, headers, known)
            if known is not self._known and settings.card_check is not None:
                settings.card_check(known.card)
            self._known = known
            return known

    @property
    def address(self) -> str:
        """Where the agent is, for error texts."""
        if self._client is not None and self._usable.supported_interfaces:
            return self._usable.supported_interfaces[0].url
        card = self._settings.card
        return card if isinstance(card, str) and is_address(card) else "its card's address"

    async def close(self) -> None:
        """End the connection; a client that was given stays open."""
        await self._let_go()
        self._known = None
        if self._settings.httpx_client is None:
            await self._http.aclose()

    async def _let_go(self) -> None:
        """Close what a factory that was given has made; our own calls go over one HTTP client."""
        client, self._client = self._client, None
        if client is not None and self._settings.client_factory is not None:
            await client.close()

    def call(self, headers: Mapping[str, str]) -> ClientCallContext:
        """The context of one call to the agent, which carries `headers`."""
        sent = dict(headers)
        if self._settings.extensions:
            sent[_EXTENSIONS] = ",".join(sorted(set(self._settings.extensions)))
        return ClientCallContext(service_parameters=sent, timeout=self._settings.timeout)


class _Wire:
    """The HTTP client as the SDK uses it: it follows no redirect, a client that was given keeps its headers, and what
    was sent as a header comes back as nothing: the SDK writes what it reads into errors and spans."""

    def __init__(self, inner: httpx.AsyncClient) -> None:
        self._inner = inner
        self.headers = httpx.Headers()

    @property
    def is_closed(self) -> bool:
        return self._inner.is_closed

    def build_request(self, method: str, url: Any, *, headers: Any = None, **options: Any) -> httpx.Request:
        merged = httpx.Headers(self.headers)
        merged.update(headers)
        merged["Accept-Encoding"] = "identity"  # what is looked for in the answer is not packed
        return self._inner.build_request(method, url, headers=merged, **options)

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        options["follow_redirects"] = False
        response = await self._inner.send(request, stream=True, **options)
        bound(response, MAX_ANSWER_BYTES)
        sent = [value for name, value in request.headers.items() if name not in _USUAL]
        response.stream = _Unquoted(cast(httpx.AsyncByteStream, response.stream), secrets_in(sent))
        if not stream:
            await response.aread()
        return response


class _Unquoted(httpx.AsyncByteStream):
    """The bytes of an answer without `secrets`."""

    def __init__(self, inner: httpx.AsyncByteStream, secrets: Sequence[str]) -> None:
        self._inner = inner
        self._secrets = [secret.encode() for secret in secrets]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = b""
        async for piece in self._inner:
            left += piece
            for secret in self._secrets:
                left = left.replace(secret, HIDDEN.encode())
            begun = self._begun(left)
            whole, left = left[: len(left) - begun], left[len(left) - begun :]
            if whole:
                yield whole
        if left:
            yield left

    def _begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret."""
        starts = (secret[:size] for secret in self._secrets for size in range(1, len(secret)))
        return max((len(start) for start in starts if data.endswith(start)), default=0)

    async def aclose(self) -> None:
        await self._inner.aclose()


def task_named(task_id: str) -> tuple[GetTaskRequest, SubscribeToTaskRequest, CancelTaskRequest]:
    """The requests about a task: for its state, for what comes of it, and for its end."""
    return GetTaskRequest(id=task_id), SubscribeToTaskRequest(id=task_id), CancelTaskRequest(id=task_id)
