"""`AgentServer`: the SDK's server with our agents and tools behind it (protocols spec §2)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext, redirect_stdout
from typing import Any, cast
from uuid import uuid4

from flowloom.asgi import PRINCIPAL, Auth, Guard, GuardRules, Principal
from flowloom.asgi.hosts import is_loopback
from flowloom.errors import ConfigurationError, DuplicateToolError
from flowloom.protocols.mcp.serving.artifacts import contents_of, file_at, resources_of
from flowloom.protocols.mcp.serving.callers import Caller, Request, caller_of, current_request
from flowloom.protocols.mcp.serving.calls import CallResult
from flowloom.protocols.mcp.serving.conversations import Served, Where
from flowloom.protocols.mcp.serving.offers import AgentOffer, ToolOffers
from flowloom.protocols.mcp.serving.sdk import (
    INVALID_PARAMS,
    AccessToken,
    AuthContextMiddleware,
    AuthenticatedUser,
    CallNext,
    Context,
    HandlerResult,
    MCPError,
    MCPServer,
    ReadResourceContents,
    ResourceNotFoundError,
    Starlette,
    TransportSecuritySettings,
    mcp,
)

_log = logging.getLogger("flowloom.mcp")
_MAX_BODY_BYTES = 4 * 1024 * 1024


class AgentServer(MCPServer[Any]):
    """The SDK's server: what agents and tools it offers is asked of them; what else was added to it is served as well.

    `agents` and `tools` are what it offers. `prompts` are the instructions that are told, by name. `allowed_hosts` and
    `auth` say from where, and by whom, it may be asked over HTTP. `closing` gives back what it holds.
    """

    def __init__(
        self,
        name: str,
        *,
        instructions: str | None,
        agents: Sequence[AgentOffer],
        tools: ToolOffers | None,
        prompts: dict[str, str],
        allowed_hosts: Sequence[str],
        auth: Auth | None,
        closing: Callable[[], Any],
    ) -> None:
        self._agents = {offer.agent.name: offer for offer in agents}
        self._tools = tools
        self._allowed_hosts = (allowed_hosts,) if isinstance(allowed_hosts, str) else tuple(allowed_hosts)
        self._auth = auth
        self._closing = closing
        self._over_pipe = self._stateless = False
        super().__init__(name, instructions=instructions, lifespan=_living, log_level="WARNING", middleware=[_noted])
        for each, text in prompts.items():
            self.prompt(name=each, description=f"The instruction of the agent {each}.")(_saying(text))

    # -- what is offered ----------------------------------------------------------------------------

    async def list_tools(self) -> list[mcp.Tool]:
        """The agents, the tools, and what else was added."""
        found = [offer.tool for offer in self._agents.values()]
        if self._tools is not None:
            found += await self._tools.described(self._caller())
        found += await super().list_tools()
        names = [tool.name for tool in found]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DuplicateToolError(
                f"The MCP server `{self.name}` has two tools named `{twice}`. Give a toolset a `tool_name_prefix`, or "
                f"an agent another name."
            )
        return found

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallResult:
        """Call an agent or a tool. Raises `MCPError` for a name that there is not."""
        request = current_request.get()
        caller = self._caller()
        state = None if context is None or context.request_state is None else json.loads(context.request_state)
        given = {} if context is None else context.input_responses or {}
        agent = self._agents.get(name)
        if agent is not None:
            if state is not None:
                return await agent.resume(state, given, caller, request, _place(agent.served, caller, state))
            return await agent.call(dict(arguments), caller, request)
        tools = self._tools
        tool = None if tools is None else await tools.named(name, caller)
        if tool is not None and tools is not None:
            if state is not None:
                where = _place(tools.served, caller, state)
                return await tools.resume(tool, state, given, caller, request, where)
            return await tools.call(tool, dict(arguments), caller, request)
        if all(each.name != name for each in await super().list_tools()):
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}")
        return await super().call_tool(name, arguments, context)

    async def list_resources(self) -> list[mcp.Resource]:
        """The files of the caller's conversations, and what else was added."""
        found: dict[str, mcp.Resource] = {}
        for served, where in self._places():
            for each in await resources_of(served, where):
                found.setdefault(each.uri, each)
        return [*found.values(), *await super().list_resources()]

    async def read_resource(
        self, uri: Any, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents] | mcp.InputRequiredResult:
        """Read a file. Raises `ResourceNotFoundError` for one that there is not."""
        named = file_at(str(uri))
        if named is None:
            return await super().read_resource(uri, context)
        name, session_id = named
        caller = self._caller()
        for served, where in self._places():
            place = where if session_id is None else served.place(caller, session_id)
            contents = await contents_of(served, place, name)
            if contents is not None:
                return [contents]
        raise ResourceNotFoundError(f"There is no file {uri}")

    def _places(self) -> list[tuple[Served, Where]]:
        """The sessions of the caller's connection."""
        caller = self._caller()
        served = [offer.served for offer in self._agents.values()]
        if self._tools is not None:
            served.append(self._tools.served)
        return [(each, each.session_of(caller)) for each in served]

    def _caller(self) -> Caller:
        return caller_of(current_request.get(), stateless=self._stateless)

    # -- where it is served -------------------------------------------------------------------------

    async def run_stdio_async(self) -> None:
        """Serve the client at the other end of stdin and stdout."""
        self._over_pipe = True
        await super().run_stdio_async()

    def streamable_http_app(self, *, host: str = "127.0.0.1", **options: Any) -> Starlette:
        """The application that serves clients over HTTP at `/mcp`; `host` is the address that it is bound to.

        Raises `ConfigurationError` for an address that others reach, without `allowed_hosts`.
        """
        self._stateless = bool(options.get("stateless_http"))
        return self._guarded(super().streamable_http_app(host=host, **_open(options)), host)

    def sse_app(self, *, host: str = "127.0.0.1", **options: Any) -> Starlette:
        """The same over the older transport, at `/sse`."""
        return self._guarded(super().sse_app(host=host, **_open(options)), host)

    def _guarded(self, app: Starlette, host: str) -> Starlette:
        if not is_loopback(host):
            if not self._allowed_hosts:
                raise ConfigurationError(
                    f"Whoever reaches `{host}` could ask the agents of `{self.name}`. Say by which names it may be "
                    f"asked (`allowed_hosts`) and who may ask (`auth`), or bind it to 127.0.0.1."
                )
            if self._auth is None:
                _log.warning("`%s` is open to whoever reaches `%s`: it has no `auth`.", self.name, host)
        rules = GuardRules(
            host,
            allow_hosts=self._allowed_hosts,
            auth=self._auth,
            allow_unauthenticated=True,
            max_body_bytes=_MAX_BODY_BYTES,
        )
        app.add_middleware(cast(Any, AuthContextMiddleware))
        app.add_middleware(_Owner)
        app.add_middleware(Guard, rules)
        return app

    @asynccontextmanager
    async def living(self) -> AsyncGenerator[str]:
        """Serve; gives what the names of connections begin with, another each time."""
        # What is still buffered when the pipe is given back would be written to it, so that it goes elsewhere at once.
        with redirect_stdout(sys.stderr) if self._over_pipe else nullcontext():
            try:
                yield f"mcp:{uuid4().hex}"
            finally:
                await self._closing()


@asynccontextmanager
async def _living(server: MCPServer[Any]) -> AsyncGenerator[str]:
    assert isinstance(server, AgentServer)
    async with server.living() as prefix:
        yield prefix


async def _noted(ctx: Request, call_next: CallNext) -> HandlerResult:
    """Have the request at hand for what answers it."""
    token = current_request.set(ctx)
    try:
        return await call_next(ctx)
    finally:
        current_request.reset(token)


class _Owner:
    """Tells the SDK who asks, so that a connection is theirs alone who opened it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        principal: Principal | None = scope.get(PRINCIPAL)
        if principal is not None and principal.name:
            told = AccessToken(token="", client_id=principal.name, subject=principal.user_id, scopes=[])
            scope["user"] = AuthenticatedUser(told)
        await self._app(scope, receive, send)


def _open(options: dict[str, Any]) -> dict[str, Any]:
    """The options of an application whose hosts and origins are looked at by our guard."""
    return {"transport_security": TransportSecuritySettings(enable_dns_rebinding_protection=False), **options}


def _place(served: Served, caller: Caller, state: dict[str, Any]) -> Where:
    """The session of a question that is answered. Raises `MCPError` for one of another user."""
    where = served.place(caller, state["session"])
    if where.user_id != state["user"]:
        raise MCPError(INVALID_PARAMS, "The question was put to another user.")
    return where


def _saying(text: str) -> Callable[[], str]:
    return lambda: text
