"""`Caller`: who makes a request, over which connection, and what they can be asked (protocols spec §2)."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from flowloom.asgi import PRINCIPAL, Principal
from flowloom.protocols.mcp.serving.sdk import MODERN_PROTOCOL_VERSIONS, ServerRequestContext, mcp

USER_ID = "mcp_user"
"""Whose the sessions are at the other end of a pipe."""
Request = ServerRequestContext[Any, Any]
current_request: ContextVar[Request] = ContextVar("flowloom.mcp.request")
"""The request that is being answered."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request: the user `user_id`, as the guard knows them, never as a call says; None if it is not known.

    `connection` names the connection that the request came over; None if it has none, so that each call stands alone.
    `modern` says that the protocol is one in which questions are results. `form` and `url` say by what a person who
    sits at the client can be asked. `principal` is None over a pipe, and without `auth`.
    """

    user_id: str | None
    connection: str | None
    modern: bool
    form: bool
    url: bool
    principal: Principal | None = None


def caller_of(request: Request, *, stateless: bool = False) -> Caller:
    """The caller of a `request`; `stateless` says that the server gives its clients over HTTP no sessions."""
    modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
    given = request.session.client_capabilities
    asked = None if given is None else given.elicitation
    http = request.request
    principal: Principal | None = None if http is None else http.scope.get(PRINCIPAL)
    return Caller(
        user_id=USER_ID if http is None else (principal.user_id or None) if principal is not None else None,
        connection=_connection_of(request, alone=modern or stateless),
        modern=modern,
        form=asked is not None and (asked.form is not None or asked.url is None),
        url=asked is not None and asked.url is not None,
        principal=principal,
    )


def _connection_of(request: Request, *, alone: bool) -> str | None:
    prefix: str = request.lifespan_context
    http = request.request
    if http is None:  # a pipe is one connection, and is served once
        return prefix
    known = None if alone else http.headers.get("mcp-session-id") or http.query_params.get("session_id")
    return f"{prefix}:{known}" if known else None


def failure(text: str) -> mcp.CallToolResult:
    """The result of a call that failed, in words."""
    return mcp.CallToolResult(content=[mcp.TextContent(text=text)], is_error=True)
