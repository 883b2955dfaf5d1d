"""`McpToolset`: the tools of an MCP server (protocols spec §1)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from google.genai import types

from flowloom.context import Context, ReadonlyContext
from flowloom.errors import (
    ConfigurationError,
    ConfirmationRejectedError,
    ConfirmationRequiredError,
    CredentialError,
    ToolError,
    ToolsetError,
)
from flowloom.models.request import LlmRequest
from flowloom.protocols.loading import check_installed
from flowloom.protocols.mcp.asked import about_call
from flowloom.protocols.mcp.calls import OpenCall, Question, QuestionKind
from flowloom.protocols.mcp.errors import McpTransportError
from flowloom.protocols.mcp.parameters import ConnectionParams, StdioConnectionParams, connection_params_of
from flowloom.protocols.mcp.pinning import Pins
from flowloom.protocols.mcp.pool import Entry, Pool
from flowloom.protocols.mcp.resources import (
    LOAD_RESOURCE,
    LoadMcpResourceTool,
    address_of,
    listed_resources,
    listed_templates,
    read,
)
from flowloom.protocols.mcp.sign_in import SignIn
from flowloom.protocols.names import tool_names
from flowloom.protocols.results import MAX_RESULT_BYTES
from flowloom.protocols.unavailable import OnUnavailable, ToolsetStatus, check_on_unavailable, toolset_error
from flowloom.protocols.words import cleaned
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset, ToolPredicate

if TYPE_CHECKING:
    from flowloom.auth import AuthConfig, AuthCredential, AuthScheme
    from flowloom.protocols.mcp.listing import Listing
    from flowloom.protocols.mcp.tool import McpTool

_log = logging.getLogger("flowloom.mcp")


class McpToolset(BaseToolset):
    """The tools of an MCP server, as tools of an agent.

    The first use connects; runs share the connection, and the runner closes it. A server that cannot be reached ends
    the run with a `ToolsetError`, unless `on_unavailable="skip"`.

    Parameters, google-adk's: `connection_params` (where the server is: `StdioConnectionParams`,
    `StreamableHTTPConnectionParams` or `SseConnectionParams`), `tool_filter` and `tool_name_prefix` (of `BaseToolset`),
    `tool_list_cache_ttl_seconds` (for how many seconds a listing is kept where the server does not tell of changes),
    `errlog` (a text file for what a stdio server writes to stderr; by default the log `flowloom.mcp`), `auth_scheme`,
    `auth_credential` and `credential_key` (how the client authenticates), `require_confirmation` (True, or a
    predicate over a call's arguments; `"destructive"` asks unless a trusted server says that the tool only reads),
    `header_provider` (gives further headers for a `ReadonlyContext`, perhaps as a coroutine), `progress_callback`
    (`async (done, total, message)`, or a function that makes one for a tool's name), `use_mcp_resources` (a tool
    `load_mcp_resource` besides), `sampling_callback` and `elicitation_callback` (`async (context, params)`: the program
    itself answers what a server asks).

    Ours: `pin_tools` (True, or a lock file's path: changed descriptions are withheld until a person confirms them),
    `sampling` (True: a person approves each prompt; `"auto"`: none does), `elicitation` (False: the server is offered
    no questions), `elicitation_wait` (for how many seconds a call is kept open while a person is asked), `roots`
    (folders that the server may know of), `on_unavailable`, `max_result_bytes` (how much text of a result the model is
    given), `max_connections` (how many may be open at once in an event loop), `use_server_instructions` (whether the
    model is given the server's own instructions), `trust_annotations` (whether hints of the server may make us ask
    less), `reset_timeout_on_progress` (whether a report of progress begins the call's timeout anew),
    `identity_provider` (an `AuthConfig`: where users sign in whose organisation vouches for them to the server's
    authorization server, by cross-app access).

    Raises `ConfigurationError` for what does not go together, `MissingExtraError` without the extra `mcp`.
    """

    def __init__(
        self,
        *,
        connection_params: Any,
        tool_filter: Sequence[str] | ToolPredicate | None = None,
        tool_name_prefix: str | None = None,
        tool_list_cache_ttl_seconds: float | None = None,
        errlog: TextIO | None = None,
        auth_scheme: AuthScheme | Mapping[str, Any] | None = None,
        auth_credential: AuthCredential | Mapping[str, Any] | None = None,
        credential_key: str | None = None,
        require_confirmation: bool | Literal["destructive"] | Callable[..., Any] = False,
        header_provider: Callable[[ReadonlyContext], Any] | None = None,
        progress_callback: Callable[..., Any] | None = None,
        use_mcp_resources: bool = False,
        sampling_callback: Callable[..., Any] | None = None,
        elicitation_callback: Callable[..., Any] | None = None,
        pin_tools: bool | str | Path = False,
        sampling: bool | Literal["auto"] = False,
        elicitation: bool = True,
        elicitation_wait: float = 600.0,
        roots: Sequence[str | Path] = (),
        on_unavailable: OnUnavailable = "error",
        max_result_bytes: int = MAX_RESULT_BYTES,
        max_connections: int | None = None,
        use_server_instructions: bool = False,
        trust_annotations: bool = False,
        reset_timeout_on_progress: bool = False,
        identity_provider: AuthConfig | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(tool_filter=tool_filter, tool_name_prefix=tool_name_prefix)
        check_installed("MCP servers are reached with the MCP SDK", "mcp", "mcp", "jsonschema")
        check_on_unavailable(on_unavailable)
        if max_connections is not None and max_connections < 1:
            raise ConfigurationError(f"`max_connections` is {max_connections}, but must be 1 or more.")
        if isinstance(require_confirmation, str) and require_confirmation != "destructive":
            raise ConfigurationError(f"`require_confirmation` is {require_confirmation!r}: a text is 'destructive'.")
        self.connection_params: ConnectionParams = connection_params_of(connection_params)
        self.tool_list_cache_ttl_seconds = tool_list_cache_ttl_seconds
        self.errlog = errlog
        self.require_confirmation: bool | Literal["destructive"] | Callable[..., Any] = require_confirmation
        self.header_provider = header_provider
        self.progress_callback = progress_callback
        self.use_mcp_resources = use_mcp_resources
        self.sampling_callback, self.elicitation_callback = sampling_callback, elicitation_callback
        self.pin_tools = pin_tools
        self.sampling: bool | Literal["auto"] = sampling
        self.elicitation_wait = elicitation_wait
        self.roots = _addresses_of(roots)
        self.on_unavailable: OnUnavailable = on_unavailable
        self.max_result_bytes = max_result_bytes
        self.use_server_instructions = use_server_instructions
        self.trust_annotations = trust_annotations
        self.reset_timeout_on_progress = reset_timeout_on_progress
        asked: dict[QuestionKind, bool] = {
            "elicitation": elicitation or elicitation_callback is not None,
            "sampling": bool(sampling) or sampling_callback is not None,
        }
        self.offers: frozenset[QuestionKind] = frozenset(kind for kind, offered in asked.items() if offered)
        self.authorization: Any = None
        self._auth = (auth_scheme, auth_credential, credential_key, identity_provider)
        if any(each is not None for each in (auth_scheme, auth_credential, identity_provider)):
            self.authorization = self._authorization()
        names = tool_names([LOAD_RESOURCE], tool_name_prefix)
        self._resource_tools = [LoadMcpResourceTool(self, names[LOAD_RESOURCE])] if use_mcp_resources else []
        self.pins = Pins(None if pin_tools is True else Path(pin_tools)) if pin_tools else None
        self.pool = Pool(self.connection_params, self, max_connections)
        self._listed_at: tuple[asyncio.AbstractEventLoop, float, int] | None = None
        self._listing_error: str | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    @property
    def address(self) -> str:
        """What the server is called in errors and logs: its address or its command, without secrets."""
        return self.connection_params.address

    # -- listing ----------------------------------------------------------------------------------

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The server's tools, neither filtered nor prefixed; `readonly_context` says for whom they are listed.

        Raises `ToolsetError` if the server cannot be asked, `DuplicateToolError` if it lists a name twice.
        """
        return [*(await self._listing(readonly_context)).plain]

    async def get_tools_with_prefix(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools as the agent of `readonly_context` gets them: filtered, and with the prefix."""
        return self._chosen(await self._listing(readonly_context), readonly_context)

    def _chosen(self, listing: Listing | SignIn, context: ReadonlyContext | None) -> list[BaseTool]:
        if isinstance(listing, SignIn):
            return [*listing.plain]
        pairs = zip(listing.plain, listing.prefixed, strict=True)
        tools: list[BaseTool] = [tool for plain, tool in pairs if self._is_tool_selected(plain, context)]
        return [*tools, *self._resource_tools]

    def _is_tool_selected(self, tool: BaseTool, readonly_context: ReadonlyContext | None) -> bool:
        chosen = self.tool_filter
        if chosen is None or callable(chosen):
            return super()._is_tool_selected(tool, readonly_context)
        return tool.name in chosen or cast("McpTool", tool).raw_mcp_tool.name in chosen

    async def _listing(self, context: ReadonlyContext | None) -> Listing | SignIn:
        """The listing for an agent that begins its run."""
        headers: dict[str, str] = {}
        try:
            headers = await self.headers(context)
            return await self._latest(headers, new_run=True)
        except ToolError as error:
            try:
                return await self._refused_listing(error, headers, context)
            except ToolError as refused:
                raise self.unavailable(refused) from refused

    async def _refused_listing(
        self, error: ToolError, sent: dict[str, str], context: ReadonlyContext | None
    ) -> Listing | SignIn:
        """What there is instead of a listing that failed with `error`: one with another credential than the `sent`, or
        the tool that asks the user of `context` for one. Raises the error if there is neither."""
        if context is None or not await self._may_sign_in(error):
            raise error
        for _ in range(2):  # with the one that is kept, and then with a fresh one
            if not await self.authorization.renewed(context, sent):
                break
            sent = await self.headers(context)
            try:
                return await self._latest(sent, new_run=True)
            except McpTransportError as again:
                if again.status != 401:
                    raise
                error = again
        if not self.authorization.can_ask:
            raise error
        self._listing_error = str(error)
        return SignIn(self, sent)

    async def _may_sign_in(self, error: ToolError) -> bool:
        """Whether a listing was refused, and the user can be asked for a credential."""
        if not isinstance(error, McpTransportError) or error.status != 401:
            return False
        if self.authorization is None:
            self.authorization = self._authorization()
        return await self.authorization.learn(error.refusal)

    def unavailable(self, error: ToolError) -> ToolsetError:
        """The error of a run that needs the server, which failed with `error`."""
        self._listing_error = str(error)
        return toolset_error(type(self).__name__, self.address, str(error), self.on_unavailable)

    async def listed(self, headers: Mapping[str, str]) -> list[McpTool]:
        """The tools as the server of `headers` lists them now, asked for again if they may have changed."""
        return (await self._latest(headers, new_run=False)).plain

    async def _latest(self, headers: Mapping[str, str], *, new_run: bool) -> Listing:
        """The latest listing: the kept one, if it holds, or a new one, which all who want it share."""
        entry = self.pool.entry(headers)
        await self.pool.connection(headers)
        kept: Listing | None = entry.listing
        loop = asyncio.get_running_loop()
        if kept is not None and "tools" not in entry.stale:
            holds = kept.kept_until is not None and loop.time() < kept.kept_until
            if holds or not new_run:
                return kept
        if entry.listing_task is None:
            entry.listing_task = loop.create_task(self._list(entry, headers))
            entry.listing_task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(entry.listing_task)

    async def _list(self, entry: Entry, headers: Mapping[str, str]) -> Listing:
        listing: Any = import_module("flowloom.protocols.mcp.listing")
        try:
            entry.stale.discard("tools")  # what changes from now on is not in the listing
            made: Listing = await self.pool.reading(headers, lambda connection: listing.list_tools(connection, self))
            entry.listing = made
            self._listed_at = asyncio.get_running_loop(), made.at, len(made.plain)
            self._listing_error = None
            return made
        except BaseException:
            entry.stale.add("tools")
            raise
        finally:
            entry.listing_task = None

    @property
    def prepares_requests(self) -> bool:
        """Whether a step has to be looked at: its headers may be others, or the server may have something to say."""
        if self.header_provider is not None or self.authorization is not None or self.use_server_instructions:
            return True
        entry = self.pool.entry({})
        return entry.listing is None or "tools" in entry.stale

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        """Declare what the server lists by now, if it has told of a change since the step before, and its instructions.

        `llm_request` is the request of a step, `tool_context` its place.
        """
        try:
            headers = await self.headers(tool_context)
        except CredentialError as error:  # which calls are told
            self._stay(error)
            return
        entry = self.pool.entry(headers)
        signed_in = entry.listing is None and bool(headers)  # since the listing that was refused
        if (entry.listing is not None or signed_in) and "tools" in entry.stale:
            await self._declare_anew(headers, entry, tool_context, llm_request)
        connection = entry.connection
        if self.use_server_instructions and connection is not None and connection.is_open:
            words = connection.session.instructions
            if words:
                llm_request.append_instructions([f"The server of the tools says:\n{cleaned(words)}"])

    async def _declare_anew(
        self, headers: Mapping[str, str], entry: Entry, context: Context, request: LlmRequest
    ) -> None:
        before = entry.listing
        try:
            listing = await self._latest(headers, new_run=False)
        except ToolError as error:
            self._stay(error)
            return
        if listing is before:
            return
        ctx = context.invocation_context
        tools = self._chosen(listing, context)
        names = {name for name, tool in request.tools_dict.items() if getattr(tool, "toolset", None) is self}
        for name in names:
            del request.tools_dict[name]
        groups: list[Any] = []
        for group in request.config.tools or ():
            if isinstance(group, types.Tool) and group.function_declarations:
                left = [each for each in group.function_declarations if each.name not in names]
                group = group.model_copy(update={"function_declarations": left})
            groups.append(group)
        request.config.tools = groups
        request.append_tools(tools)
        others = [tool for tool in ctx.tools or () if getattr(tool, "toolset", None) is not self]
        ctx.tools = [*others, *tools]

    def _stay(self, error: ToolError) -> None:
        self._listing_error = str(error)
        _log.warning("The tools of %s stay as they were: they cannot be listed anew. %s", self.address, error)

    # -- who calls --------------------------------------------------------------------------------

    async def headers(self, context: ReadonlyContext | None) -> dict[str, str]:
        """The headers that provider and credential give for the run of `context`; they tell its connections from
        others."""
        headers: dict[str, str] = {} if self.authorization is None else await self.authorization.headers(context)
        if self.header_provider is None or context is None:
            return headers
        given: Any = self.header_provider(context)
        if inspect.isawaitable(given):
            given = await given
        return {**headers, **{str(name): str(value) for name, value in cast(dict[str, Any], given or {}).items()}}

    def _authorization(self) -> Any:
        """What shows a server who calls; loaded only where something is to be shown."""
        kind = import_module("flowloom.protocols.mcp.authorization").Authorization
        return kind(self.connection_params, *self._auth)

    async def authorized(self, context: Context, refusal: Any, sent: Mapping[str, str]) -> bool:
        """Whether the call of `context` may be made again after a `refusal`, with another credential than the one in
        the headers `sent`."""
        if isinstance(self.connection_params, StdioConnectionParams):
            return False
        if self.authorization is None:
            self.authorization = self._authorization()
        return await self.authorization.ask(context, refusal, sent)

    # -- calls ------------------------------------------------------------------------------------

    async def check_pin(self, tool: McpTool, context: Context) -> None:
        """Raise what withholds `tool` until a person confirms that its description has changed; `context` is the
        call's."""
        if tool.withheld is None:
            return
        shown = {"diff": tool.withheld}
        decision = about_call(context, shown)
        if decision is None:
            context.request_confirmation(
                hint=f"Tool `{tool.name}` of {self.address} is not as it was seen before. Its new description is shown "
                f"to the model, and the call made, if you confirm it.",
                payload=shown,
            )
            raise ConfirmationRequiredError(
                f"The tool `{tool.name}` has changed and is withheld until a person confirms it. It has not run."
            )
        if not decision.confirmed:
            raise ConfirmationRejectedError(f"A person rejected what has changed in `{tool.name}`. It was not run.")
        if self.pins is not None:
            self.pins.accept(tool.raw_mcp_tool)
        tool.withheld = None
        for entry in self.pool.entries():
            entry.stale.add("tools")

    @staticmethod
    def place_of(context: Context) -> tuple[tuple[str, str, str], str]:
        """Whose call that of `context` is, and which."""
        session = context.session
        return (session.app_name, session.user_id, session.id), context.function_call_id or ""

    async def answered(self, question: Question, call: OpenCall | None) -> Any:
        """The answer of the program's own callback to a `question` in a `call`; None if there is none."""
        given = self.elicitation_callback if question.kind == "elicitation" else self.sampling_callback
        if given is None:
            return None
        answer = given(question.context, question.params)
        return await answer if inspect.isawaitable(answer) else answer

    # -- resources --------------------------------------------------------------------------------

    async def list_resources(self, readonly_context: ReadonlyContext | None = None) -> list[str]:
        """The names of the server's resources; `readonly_context` says for whom. Raises `ToolError`s."""
        headers = await self.headers(readonly_context)
        return [each.name for each in await listed_resources(self, headers)]

    async def list_resource_templates(self, readonly_context: ReadonlyContext | None = None) -> list[str]:
        """The templates of addresses that the server offers; `readonly_context` says for whom."""
        headers = await self.headers(readonly_context)
        return [str(each.uri_template) for each in await listed_templates(self, headers)]

    async def get_resource_info(self, name: str, readonly_context: ReadonlyContext | None = None) -> dict[str, Any]:
        """What the server says of the resource `name`, as JSON data; `readonly_context` says for whom."""
        headers = await self.headers(readonly_context)
        for each in await listed_resources(self, headers):
            if each.name == name:
                return each.model_dump(mode="json", by_alias=True, exclude_none=True)
        raise ToolError(f"{self.address} has no resource `{name}`.")

    async def read_resource(self, name_or_uri: str, readonly_context: ReadonlyContext | None = None) -> list[Any]:
        """The contents of a resource, as the SDK gives them; `name_or_uri` is its name or address, and
        `readonly_context` says for whom."""
        headers = await self.headers(readonly_context)
        return await read(self, headers, await address_of(self, headers, name_or_uri))

    # -- folders ----------------------------------------------------------------------------------

    async def set_roots(self, roots: Sequence[str | Path]) -> None:
        """Let the server know of the folders `roots` from now on, and of no others; a connected one is told so."""
        self.roots = _addresses_of(roots)
        await self.pool.tell_roots()

    # -- its state --------------------------------------------------------------------------------

    def status(self) -> ToolsetStatus:
        """How the toolset is: connected or not, how many tools, what went wrong last."""
        loop, at, count = self._listed_at or (None, 0.0, None)
        since = None if loop is None or loop.is_closed() else max(0.0, loop.time() - at)
        error = self._listing_error or self.pool.last_error
        connected = self.pool.is_connected
        return ToolsetStatus(
            state="connected" if connected else "failed" if error else "idle",
            tools=count,
            last_error=error,
            reconnects=self.pool.reconnects,
            seconds_since_listing=since,
        )

    async def close(self) -> None:
        """Close all connections. The toolset can be used again, and opens new ones then."""
        await self.pool.close()


def _addresses_of(folders: Sequence[str | Path]) -> tuple[str, ...]:
    return tuple(Path(each).absolute().as_uri() for each in folders)


class MCPToolset(McpToolset):
    """The old name of `McpToolset`."""

    def __init__(self, **options: Any) -> None:
        warnings.warn("`MCPToolset` is the old name: use `McpToolset`.", DeprecationWarning, stacklevel=2)
        super().__init__(**options)
