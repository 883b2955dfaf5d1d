"""`to_mcp_server`: an agent of ours as a tool of an MCP server (protocols spec §2)."""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from google.genai import types

from flowloom.agents import BaseAgent
from flowloom.asgi import PRINCIPAL, Auth, Guard, GuardRules, Principal
from flowloom.errors import ConfigurationError
from flowloom.extras import missing_extra
from flowloom.run_stream import MessageCompleted, ToolCallFinished
from flowloom.runner import InMemoryRunner, PendingCall, Runner, RunResult

try:
    import mcp_types as mcp
    from mcp.server.mcpserver import Context, MCPServer
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
    from starlette.applications import Starlette
except ImportError as error:
    if TYPE_CHECKING:
        raise
    raise missing_extra("Serving an agent over MCP needs the SDK", "mcp", error) from error

USER_ID = "mcp_user"
"""Whose the sessions are where no `auth` says who asks."""
_MAX_BODY_BYTES = 4 * 1024 * 1024


def to_mcp_server(
    agent: BaseAgent[Any],
    *,
    name: str | None = None,
    instructions: str | None = None,
    runner: Runner[Any] | None = None,
    session: Literal["connection", "call"] = "connection",
    auth: Auth | None = None,
) -> MCPServer[Any]:
    """An MCP server with one tool, named as the agent: it takes a `request`, and gives the agent's final answer.

    `name` is the server's, by default the agent's; `instructions` are what clients are told of it. `runner` runs the
    agent, by default one in memory. With `session="connection"` the calls of a connection are one conversation, with
    `session="call"` each is one of its own; so are the calls of clients over HTTP that speak 2026-07-28, which has no
    connections. `auth` says whose the sessions are; it is asked over HTTP alone.

    Raises `ConfigurationError` for something that is no agent, and `MissingExtraError` without the SDK.
    """
    if not isinstance(agent, BaseAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"`to_mcp_server` takes an agent, not a `{type(agent).__name__}`.")
    asked = _AskedAgent(runner or InMemoryRunner(agent, app_name=agent.name), session)
    server = _AgentServer(asked.runner if runner is None else None, auth, name or agent.name, instructions)
    described = agent.description or f"Ask the agent {agent.name}."
    server.add_tool(asked.answer, name=agent.name, description=described, structured_output=False)
    return server


class _AgentServer(MCPServer[Any]):
    """The SDK's server, with our guard before HTTP, and what tools print kept from a pipe."""

    def __init__(self, owned: Runner[Any] | None, auth: Auth | None, name: str, instructions: str | None) -> None:
        self._owned, self._auth = owned, auth
        self._over_pipe = False
        super().__init__(name, instructions=instructions, lifespan=_living, log_level="WARNING")

    async def run_stdio_async(self) -> None:
        """Serve the client at the other end of stdin and stdout."""
        self._over_pipe = True
        await super().run_stdio_async()

    def streamable_http_app(self, *, host: str = "127.0.0.1", **options: Any) -> Starlette:
        """The application that serves clients over HTTP at `/mcp`; `host` is the address that it is bound to.

        Raises `ConfigurationError` for an address that others reach while no `auth` says who asks.
        """
        rules = GuardRules(host, auth=self._auth, max_body_bytes=_MAX_BODY_BYTES)
        app = super().streamable_http_app(host=host, **options)
        app.add_middleware(Guard, rules)
        return app

    @asynccontextmanager
    async def living(self) -> AsyncGenerator[str]:
        """Serve; gives what the ids of sessions begin with, another each time."""
        # What is still buffered when the pipe is given back would be written to it, so that it goes elsewhere at once.
        with redirect_stdout(sys.stderr) if self._over_pipe else nullcontext():
            try:
                yield f"mcp:{uuid4().hex}"
            finally:
                if self._owned is not None:
                    await self._owned.close()


@asynccontextmanager
async def _living(server: MCPServer[Any]) -> AsyncGenerator[str]:
    assert isinstance(server, _AgentServer)
    async with server.living() as prefix:
        yield prefix


class _AskedAgent:
    """Runs the agent for each call of its tool."""

    def __init__(self, runner: Runner[Any], session: Literal["connection", "call"]) -> None:
        self.runner = runner
        self._session = session

    async def answer(self, request: str, ctx: Context[Any, Any]) -> mcp.CallToolResult:
        """The final answer to `request`. A client that cancels the call cancels the run."""
        runner = self.runner
        where: dict[str, Any] = {"user_id": _user_of(ctx), "session_id": self._session_id(ctx)}
        await runner.session_service.get_or_create_session(app_name=runner.app_name, **where)
        content = types.Content(role="user", parts=[types.Part(text=request)])
        steps = 0
        async with runner.start(**where, new_message=content) as handle:
            async for event in handle.stream():
                if isinstance(event, MessageCompleted | ToolCallFinished):
                    steps += 1
                    await ctx.report_progress(steps)
            return _told(await handle.result())

    def _session_id(self, ctx: Context[Any, Any]) -> str:
        prefix: str = ctx.request_context.lifespan_context
        if self._session == "call":
            return f"{prefix}:{uuid4().hex}"
        headers = ctx.headers
        if headers is None:  # a pipe is one connection, and is served once
            return prefix
        known = None if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else headers.get("mcp-session-id")
        return f"{prefix}:{known or uuid4().hex}"


def _user_of(ctx: Context[Any, Any]) -> str:
    """Who asks, as the guard knows them: never what a call says."""
    request = ctx.request_context.request
    principal: Principal | None = None if request is None else request.scope.get(PRINCIPAL)
    return USER_ID if principal is None else principal.user_id or USER_ID


def _told(result: RunResult[Any]) -> mcp.CallToolResult:
    """A run's result as that of a call: what waits, or went wrong, is an error with words."""
    if result.pending:
        return _failure(_waiting(result.pending))
    if result.status != "final":
        return _failure(f"The run ended without an answer: {result.error or result.status}")
    last = next((each for each in reversed(result.events) if each.is_final_response() and each.content), None)
    parts = (last.content.parts or []) if last is not None and last.content is not None else []
    blobs = [part.inline_data for part in parts if part.inline_data is not None and part.inline_data.data]
    content: list[mcp.ContentBlock] = [_block(blob) for blob in blobs]
    if result.text or not content:
        content.insert(0, mcp.TextContent(text=result.text))
    return mcp.CallToolResult(content=content)


def _waiting(pending: Sequence[PendingCall]) -> str:
    told = [f"- {each.kind} of `{each.name}`" + (f": {each.message}" if each.message else "") for each in pending]
    return "\n".join(["The agent waits for what cannot be given over this connection:", *told])


def _failure(text: str) -> mcp.CallToolResult:
    return mcp.CallToolResult(content=[mcp.TextContent(text=text)], is_error=True)


def _block(blob: types.Blob) -> mcp.ContentBlock:
    data = base64.b64encode(blob.data or b"").decode()
    kind = blob.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return mcp.ImageContent(data=data, mime_type=kind)
    if kind.startswith("audio/"):
        return mcp.AudioContent(data=data, mime_type=kind)
    address = blob.display_name or "answer"
    uri = address if "://" in address else f"file:///{address}"
    return mcp.EmbeddedResource(resource=mcp.BlobResourceContents(uri=uri, blob=data, mime_type=kind))
