"""`Guard`: the middleware in front of all that serves HTTP (server spec §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from flowloom.asgi.hosts import is_loopback
from flowloom.asgi.limits import LimitedBody, check_headers, check_length, reject_and_drain
from flowloom.asgi.origins import Origins, answer_preflight, is_preflight, with_cors
from flowloom.asgi.principal import EVERYBODY, Auth, Principal, RefusedError
from flowloom.asgi.protocol import Application, Receive, RejectedError, Scope, Send, path_of, reject
from flowloom.errors import ConfigurationError

PRINCIPAL = "flowloom.principal"
"""The key of an ASGI scope under which it stands who makes the request."""


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Who may ask a server, from where, and how much.

    `bind_host` is the address that it is bound to. Raises `ConfigurationError` if that is another than loopback, and
    nothing says who may ask: neither `auth`, nor `allow_unauthenticated`.
    """

    bind_host: str
    _: KW_ONLY
    allow_origins: Sequence[str] = ()
    """Origins of other pages that may use it: literal, `regex:PATTERN`, or `*`."""
    allow_hosts: Sequence[str] = ()
    """Names that it is asked for by, beside those of this machine, or `*`. With none, a server that is bound to
    loopback takes those alone, and one that is bound elsewhere takes any."""
    auth: Auth | None = None
    allow_unauthenticated: bool = False
    max_body_bytes: int = 32 * 1024 * 1024
    """The largest body of a request; a larger one is refused while it is read."""
    open_paths: Sequence[str] = ()
    """Paths that need no `auth`; one that ends with `/` (but `/` itself) stands for all below it."""
    origins: Origins = field(init=False)

    def __post_init__(self) -> None:
        if not is_loopback(self.bind_host) and self.auth is None and not self.allow_unauthenticated:
            raise ConfigurationError(
                f"Whoever reaches `{self.bind_host}` could read and write the sessions of all users. Set a token "
                f"(`--token`, `FLOWLOOM_TOKEN`) or an `auth` hook, bind the server to 127.0.0.1, or say that everybody "
                f"may use it (`allow_unauthenticated`)."
            )
        object.__setattr__(self, "origins", Origins(self.allow_origins, self.bind_host, self.allow_hosts))

    def is_open(self, path: str) -> bool:
        """Whether `path` needs no `auth`."""
        return any(path == known or (known[1:].endswith("/") and path.startswith(known)) for known in self.open_paths)


class Guard:
    """Turns away what `rules` do not let through to `app`, and notes who asks as `scope["flowloom.principal"]`.

    A request that is turned away is answered with JSON, `{"detail", "code"}`; a WebSocket with HTTP 403, before it is
    accepted.
    """

    def __init__(self, app: Application, rules: GuardRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            check_headers(scope)
            self._rules.origins.check_host(scope)
            listed = self._rules.origins.check_origin(scope)
        except RejectedError as error:
            await reject(scope, send, error)
            return
        if listed is not None and scope["type"] == "http":
            send = with_cors(send, listed)
            if is_preflight(scope):
                await answer_preflight(scope, send)
                return
        try:
            scope[PRINCIPAL] = await self._identified(scope)
        except RejectedError as error:
            await reject(scope, send, error)
            return
        if scope["type"] == "http":
            await self._limited(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _identified(self, scope: Scope) -> Principal:
        """Who asks. Raises `RejectedError` (401, 403)."""
        auth = self._rules.auth
        if auth is None or self._rules.is_open(path_of(scope)):
            return EVERYBODY
        try:
            principal = await auth(scope)
        except RefusedError as error:
            raise _refused(error) from error
        if principal is None:
            raise _refused(RefusedError("It is not known who makes this request. Send a valid bearer token."))
        return principal

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._rules.max_body_bytes
        try:
            check_length(scope, limit)
        except RejectedError as error:
            await reject_and_drain(receive, send, error)
            return
        body = LimitedBody(receive, send, limit)
        try:
            await self._app(scope, body.receive, body.send)
        except Exception:
            if not body.rejected:  # else the application only says that its client is gone
                raise


def _refused(error: RefusedError) -> RejectedError:
    if error.status == 403:
        return RejectedError(403, "forbidden", str(error))
    return RejectedError(401, "unauthorized", str(error), headers={"www-authenticate": "Bearer"})
