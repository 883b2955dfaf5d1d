"""`Connection`: one connection to one server, owned by one task (protocols spec §0 One owner, §1 Lifecycle).

The owner opens the transport, negotiates, waits until it is over, and closes. Callers send requests through the
session's streams. Whoever imports this module loads the SDK: `pool.py` does so in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, TypeVar, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, FileUrl, TypeAdapter, ValidationError

from flowloom import __version__
from flowloom.auth.bounded import AnswerTooLongError
from flowloom.auth.fields import SHORTEST_GUESSED, secrets_in, without
from flowloom.context.ending import all_ended
from flowloom.protocols.mcp.calls import OpenCall, Question, open_call
from flowloom.protocols.mcp.changes import Changes
from flowloom.protocols.mcp.errors import McpProtocolError, McpTransportError
from flowloom.protocols.mcp.host import Host
from flowloom.protocols.mcp.http import Exchange, Refusal, exchange, http_streams
from flowloom.protocols.mcp.incoming import Repaired
from flowloom.protocols.mcp.parameters import ConnectionParams, StdioConnectionParams
from flowloom.protocols.mcp.stdio import LastWords, process_streams
from flowloom.protocols.words import cleaned

_log = logging.getLogger("flowloom.mcp")
T = TypeVar("T", bound=BaseModel)

PROBE_SHARE = 0.4
"""Which part of the time for the start the question may take whether the server is of the newer era."""
CLOSING_SECONDS = 8.0
"""How long the end of a connection may take: what is left of it then is cancelled."""
MOMENT = 0.3
"""How long an error waits for the reason why a connection broke."""
CLIENT = types.Implementation(name="flowloom", version=__version__)
CALL_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
ListKind = Literal["tools", "resources", "resource_templates", "prompts"]
_BROKEN = ("Connection closed", "SSE stream")
"""How the SDK's own words for a broken connection begin; servers use its code for errors of theirs."""
MAX_PAGES, MAX_ITEMS = 1000, 10_000


class Era:
    """What is remembered of a server's protocol: None before the first connection."""

    def __init__(self) -> None:
        self.known: Literal["legacy"] | types.DiscoverResult | None = None


_ours: ContextVar[bool] = ContextVar("flowloom_mcp_ours", default=False)


class _Quiet(logging.Filter):
    """Keeps what the SDK would log of our connections out of the log: messages, addresses and headers hold secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _ours.get()


for _name in (
    "client mcp.client.sse mcp.client.streamable_http mcp.shared.jsonrpc_dispatcher mcp.client.subscriptions httpx2 "
    "httpcore2.connection httpcore2.http11 httpcore2.http2 httpcore2.proxy httpcore2.socks"
).split():
    logging.getLogger(_name).addFilter(_Quiet())


class Connection:
    """One connection: `open` it, send `request`s, `close` it.

    `headers` are those of provider and credential; `on_change` is told which lists have changed, `on_update` the
    addresses of resources that have, `on_end` that it is over.
    """

    def __init__(
        self,
        params: ConnectionParams,
        headers: Mapping[str, str],
        host: Host,
        era: Era,
        on_change: Callable[[str], object],
        on_update: Callable[[str], object],
        on_end: Callable[[Connection], object],
    ) -> None:
        self.params = params
        self.loop = asyncio.get_running_loop()
        self.broken: str | None = None
        """Why it is over, if it did not end because it was closed."""
        self.unsent = False
        """Whether it broke because no connection could be made, so that nothing was carried out."""
        self.refusal: Refusal | None = None
        """What the server said when it refused the start."""
        self.calls: dict[OpenCall, None] = {}
        """Those that are open, the oldest first."""
        self.described: dict[str, str] = {}
        """What spans tell of the server that answered: names, and the hash of its session's id."""
        self._headers, self._host, self._era = headers, host, era
        self._changes, self._on_end = Changes(params, on_change, on_update), on_end
        self._secrets = _secrets_of(params, headers)
        self._words = LastWords(host.errlog, self.hidden)
        self.knows_of_roots = bool(host.roots)
        """Whether the server was offered folders."""
        self._closing = False
        self._over = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = self.loop.create_future()
        self._session: ClientSession | None = None
        self._owner: asyncio.Task[None] | None = None

    # -- its life ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect and negotiate, within the `timeout`. Raises `McpTransportError`."""
        token = _ours.set(True)
        try:
            self._owner = self.loop.create_task(self._own(), name=f"flowloom-mcp {self.params.address}")
        finally:
            _ours.reset(token)
        try:
            async with asyncio.timeout(self.params.timeout):
                self._session = await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            reason = f"it gave no answer within {self.params.timeout:g} seconds"
            raise McpTransportError(f"{reason}.{self._words.told()}") from None
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """End it: open calls fail, the session is given back, the process ends. A second time changes nothing."""
        self._closing = True
        self._over.set()
        if self._owner is None or self._owner is asyncio.current_task():
            return
        if not self._ready.done():
            self._owner.cancel()
        done, _ = await asyncio.wait({self._owner}, timeout=CLOSING_SECONDS)
        if not done:
            self._owner.cancel()
        await all_ended((self._owner,))

    @property
    def is_open(self) -> bool:
        """Whether requests can be made."""
        return self._session is not None and not self._over.is_set()

    @property
    def session(self) -> ClientSession:
        """The SDK's session."""
        assert self._session is not None
        return self._session

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks 2026-07-28 or later."""
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    def hidden(self, text: str) -> str:
        """A text without the secrets that the server was given."""
        return without(text, self._secrets)

    async def _own(self) -> None:
        """The owner's work: everything that is entered is left here, in the same task."""
        noted = Exchange()
        exchange.set(noted)
        try:
            async with AsyncExitStack() as stack:
                read, write = await stack.enter_async_context(self._streams())
                over = partial(self._ended, "the server ended its stream")
                incoming = Repaired(read, self.hidden, lambda: session.protocol_version, over)
                session = self._session_over(JSONRPCDispatcher(incoming, write))
                await stack.enter_async_context(session)
                await self._negotiate(session)
                self.described = _description(session, noted.session)
                if not self._ready.done():
                    self._ready.set_result(session)
                self._changes.hear(session)
                try:
                    await self._over.wait()
                finally:
                    await self._changes.end()
        except BaseException as error:
            told = _first(error)
            self.unsent = isinstance(told, httpx2.ConnectError | httpx2.ConnectTimeout | OSError)
            self.refusal = noted.refusal
            if not self._closing:
                self.broken = self.broken or self._reason(told, noted.refusal)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._over.set()
            if not self._ready.done():
                failure = McpTransportError(
                    f"{self.broken or 'it was closed'}.{self._words.told()}",
                    status=None if noted.refusal is None else noted.refusal.status,
                )
                failure.refusal = noted.refusal
                self._ready.set_exception(failure)
                self._ready.exception()  # it may be that no caller waits
            self._on_end(self)

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Any, Any]]:
        if isinstance(self.params, StdioConnectionParams):
            async with process_streams(self.params.server, self._words, self._ended) as streams:
                yield streams
        else:
            async with http_streams(self.params, self._headers) as streams:
                yield streams

    def _ended(self, reason: str) -> None:
        """The server's output has ended."""
        if not self._over.is_set():
            self.broken = reason.rstrip(".")
            self._over.set()
            if not self._ready.done():
                assert self._owner is not None
                self._owner.cancel()

    def _session_over(self, dispatcher: JSONRPCDispatcher[Any]) -> ClientSession:
        offers = self._host.offers
        return ClientSession(
            dispatcher=dispatcher,
            client_info=CLIENT,
            elicitation_callback=self._elicited if "elicitation" in offers else None,
            sampling_callback=self._sampled if "sampling" in offers else None,
            list_roots_callback=self._list_roots if self.knows_of_roots else None,
            message_handler=self._changes.heard,
        )

    async def _negotiate(self, session: ClientSession) -> None:
        """Agree on a protocol: of the newer era if the server is, which is asked once and remembered."""
        known = self._era.known
        if isinstance(known, types.DiscoverResult):
            session.adopt(known)
            return
        found = None if known == "legacy" else await self._discovered(session, self.params.timeout * PROBE_SHARE)
        if found is None:
            try:
                await session.initialize()
            except MCPError as error:
                if known == "legacy" or error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
                    raise
                found = await self._discovered(session, None)  # it began slowly, and has taken the first question
                if found is None:
                    raise
        self._era.known = found or "legacy"

    async def _discovered(self, session: ClientSession, seconds: float | None) -> types.DiscoverResult | None:
        """What a server of the newer era says of itself, if it does within so many `seconds`."""
        version = LATEST_MODERN_VERSION
        for _ in range(2):
            try:
                async with asyncio.timeout(seconds):
                    result = types.DiscoverResult.model_validate(await session.send_discover(version))
            except MCPError as error:
                data: Any = error.error.data
                given: Any = cast(dict[str, Any], data).get("supported") if isinstance(data, dict) else None
                mutual = [each for each in MODERN_PROTOCOL_VERSIONS if isinstance(given, list) and each in given]
                if not mutual or version == mutual[-1]:
                    return None
                version = mutual[-1]
                continue
            except (TimeoutError, ValidationError):
                return None
            if not any(each in result.supported_versions for each in MODERN_PROTOCOL_VERSIONS):
                return None
            session.adopt(result)
            return result
        return None

    # -- requests ---------------------------------------------------------------------------------

    async def request(
        self,
        request: types.Request[Any, Any],
        result: type[T] | TypeAdapter[T],
        progress: Any = None,
        timeout: float | None = None,
    ) -> T:
        """Send a request. Raises `McpProtocolError` or `McpTransportError`; cancelled, it tells the server so.

        `timeout` is in seconds; `progress` is called with what is done, the total and a message.
        """
        noted = Exchange()
        token, quiet = exchange.set(noted), _ours.set(True)
        try:
            if not self.is_open:
                raise MCPError(code=types.CONNECTION_CLOSED, message="Connection closed")
            return await self.session.send_request(
                request, result, request_read_timeout_seconds=timeout, progress_callback=progress
            )
        except MCPError as error:
            failure = await self._failure(error, noted.refusal)
        except ValidationError as error:
            failure = McpProtocolError(f"it answered what the protocol does not know ({error.error_count()} places)")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            failure = await self._failure(MCPError(code=types.CONNECTION_CLOSED, message="Connection closed"), None)
        finally:
            exchange.reset(token)
            _ours.reset(quiet)
        raise failure

    async def _failure(self, error: MCPError, refusal: Refusal | None) -> McpProtocolError | McpTransportError:
        """What an error of the SDK means."""
        if refusal is not None and (refusal.status in (401, 403, 404, 429) or refusal.status >= 500):
            failure = McpTransportError(f"HTTP {refusal.status}", status=refusal.status, sent=refusal.status >= 500)
            failure.refusal = refusal
            return failure
        if error.code == types.CONNECTION_CLOSED and (self._over.is_set() or error.message.startswith(_BROKEN)):
            if self._owner is not None and (self._over.is_set() or not error.message.startswith("SSE")):
                await asyncio.wait({self._owner}, timeout=MOMENT)
            told = self.broken or ("the connection broke" if self._over.is_set() else self.hidden(error.message))
            return McpTransportError(f"{told}.{self._words.told()}", sent=not self.unsent)
        if error.code == types.REQUEST_TIMEOUT and error.message.startswith("Request "):
            return McpTransportError("it gave no answer in time", sent=True)
        return McpProtocolError(f"{self.hidden(cleaned(error.message))} ({error.code})", code=error.code)

    async def listed(self, kind: ListKind) -> tuple[list[Any], float | None]:
        """All items of a list, page by page, and for how many seconds they may be kept, if the server says so.

        It ends after `MAX_PAGES` pages or `MAX_ITEMS` items, and where a cursor comes a second time.
        """
        items: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        kept: float | None = None
        for _ in range(MAX_PAGES):
            page = await self._page(kind, cursor)
            items += getattr(page, kind)
            if self.is_modern and page.ttl_ms:
                kept = page.ttl_ms / 1000
            cursor = page.next_cursor
            if cursor is None or len(items) >= MAX_ITEMS:
                break
            if cursor in seen:
                _log.warning("%s goes round in its list of %s: the rest is left out.", self.params.address, kind)
                break
            seen.add(cursor)
        if len(items) > MAX_ITEMS or cursor is not None:
            _log.warning("%s lists more %s than are taken: %d.", self.params.address, kind, len(items[:MAX_ITEMS]))
        return items[:MAX_ITEMS], kept

    async def _page(self, kind: ListKind, cursor: str | None) -> Any:
        params = types.PaginatedRequestParams(cursor=cursor)
        timeout = self.params.timeout
        if kind == "tools":
            page = await self.request(types.ListToolsRequest(params=params), types.ListToolsResult, timeout=timeout)
            absorb: Any = getattr(self.session, "_absorb_tool_listing", None)  # arguments that go as headers
            return page if absorb is None else absorb(page, complete=False)
        if kind == "resources":
            asked, result = types.ListResourcesRequest(params=params), types.ListResourcesResult
        elif kind == "prompts":
            asked, result = types.ListPromptsRequest(params=params), types.ListPromptsResult
        else:
            asked, result = types.ListResourceTemplatesRequest(params=params), types.ListResourceTemplatesResult
        return await self.request(asked, result, timeout=timeout)

    async def subscribe(self, uri: str) -> bool:
        """Have the server tell of changes of the resource at `uri`; whether it does. Raises as `request` does."""
        promised = self.session.server_capabilities
        if promised is None or promised.resources is None or not promised.resources.subscribe:
            return False
        if self.is_modern:
            await self._changes.hear_of(self.session, uri)
        else:
            asked = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await self.request(asked, types.EmptyResult, timeout=self.params.timeout)
        return True

    # -- what the server sends --------------------------------------------------------------------

    async def _elicited(self, context: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        return await self._asked(Question("elicitation", params, context))

    async def _sampled(self, context: Any, params: Any) -> Any:
        return await self._asked(Question("sampling", params, context))

    async def _asked(self, question: Question) -> Any:
        """The answer to what the server asks, by the call that it is about."""
        call = open_call.get() or self._only_call()
        answer = await self._host.answered(question, call)
        if answer is not None:
            return answer
        if call is None:
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="It cannot be told which call asks this, so no person is asked."
            )
        return await call.ask(question)

    def _only_call(self) -> OpenCall | None:
        """The call that a question on a pipe is about, if it cannot be another session's: the oldest, which a server
        that does one thing after the other is at; nothing tells which."""
        calls = [*self.calls]
        return calls[0] if len({call.session for call in calls}) == 1 else None

    async def tell_roots(self) -> None:
        """Tell the server that the folders have changed. The newer era asks for them with each call."""
        if not self.is_modern:
            quiet = _ours.set(True)
            try:
                await self.session.send_notification(types.RootsListChangedNotification())
            finally:
                _ours.reset(quiet)

    async def _list_roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(uri)) for uri in self._host.roots])

    def _reason(self, error: BaseException, refusal: Refusal | None) -> str:
        """Why the connection failed, without a secret."""
        if refusal is not None:
            return f"HTTP {refusal.status}"
        if isinstance(self.params, StdioConnectionParams) and isinstance(error, OSError):
            named = f"`{self.params.server.command}`"
            if isinstance(error, FileNotFoundError):
                return f"there is no command {named}, or no such folder to start it in"
            return f"the command {named} cannot be started ({error.strerror or type(error).__name__})"
        if isinstance(error, httpx2.ConnectTimeout | httpx2.ConnectError):
            return "no connection could be made"
        if isinstance(error, asyncio.CancelledError):
            return "its event loop ended"
        if isinstance(error, AnswerTooLongError):
            return f"it sent a message of {error.told}"
        if isinstance(error, MCPError | RuntimeError):
            return self.hidden(cleaned(str(error))).rstrip(".")
        return f"the connection failed ({type(error).__name__})"


def _description(session: ClientSession, session_id: str | None) -> dict[str, str]:
    """What a span says of a session; its id is a secret, and is told apart from others by a hash."""
    told = {
        "mcp.server.name": cleaned(session.server_info.name) if session.server_info is not None else None,
        "mcp.protocol.version": session.protocol_version,
        "mcp.session.id": session_id and hashlib.sha256(session_id.encode()).hexdigest()[:16],
    }
    return {name: value for name, value in told.items() if value}


def _first(error: BaseException) -> BaseException:
    """The first error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _secrets_of(params: ConnectionParams, headers: Mapping[str, str]) -> list[str]:
    """The values that no text may hold, the longest first."""
    given = [*headers.values()]
    if isinstance(params, StdioConnectionParams):
        given += (params.server.env or {}).values()
    else:
        given += (params.headers or {}).values()
    return secrets_in(given, SHORTEST_GUESSED)
