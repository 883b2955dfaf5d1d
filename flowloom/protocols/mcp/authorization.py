"""How a server is shown who calls: credentials as headers, and OAuth 2.1 as servers ask for it (protocols spec §1).

A credential is the program's own, or the user's, who is asked like for any other tool. What a server's 401 tells of its
authorization server is found out by `discovery.py`, when there is one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from flowloom.auth import Access, AuthConfig, AuthCredential, AuthScheme, OAuth2Auth
from flowloom.context import Context, ReadonlyContext
from flowloom.errors import ConfigurationError, InputRequiredError
from flowloom.protocols.loading import in_thread
from flowloom.protocols.mcp.parameters import ConnectionParams, StdioConnectionParams

if TYPE_CHECKING:
    from flowloom.protocols.mcp.http import Refusal


class Authorization:
    """The credentials of one toolset, whose parameters `scheme`, `credential`, `key` and `provider` are.

    Raises `ConfigurationError` for what cannot be sent to an MCP server.
    """

    def __init__(self, params: ConnectionParams, scheme: Any, credential: Any, key: str | None, provider: Any) -> None:
        self._params, self._key = params, key
        self._provider = None if provider is None else _read(AuthConfig, provider)
        self._scheme = None if scheme is None else _read(AuthScheme, scheme)
        self._credential = None if credential is None else _read(AuthCredential, credential)
        self.config: AuthConfig | None = None
        """What the user is asked for, if the program or the server has said so."""
        if (scheme or credential or provider) and isinstance(params, StdioConnectionParams):
            raise ConfigurationError(
                "A stdio server is shown no credential: give it what it needs by `env` of its `server_params`."
            )
        self._check_client()
        if self._scheme is not None:
            if self._scheme.type_ == "apiKey" and self._scheme.in_ not in (None, "header"):
                raise ConfigurationError(f"An MCP server takes an API key in a header, and not as {self._scheme.in_}.")
            if not self._alone:
                self.config = AuthConfig(
                    auth_scheme=self._scheme,
                    raw_auth_credential=self._for_server(self._credential),
                    credential_key=key or "",
                    identity_provider=self._provider,
                )

    def _check_client(self) -> None:
        """Raise `ConfigurationError` for a client that its authorization server has to know, and that has no id."""
        client = self._client or OAuth2Auth()
        known = (self._alone and self._client is not None) or client.private_key or self._provider is not None
        if known and not client.client_id:
            raise ConfigurationError(
                "A client that asks for itself, has a key, or comes with an identity provider is one that the "
                "authorization server knows: give its `client_id` in `auth_credential.oauth2`."
            )

    def _for_server(self, credential: AuthCredential | None) -> AuthCredential | None:
        """The `credential` with the server as the resource that an identity provider gives its word for."""
        if self._provider is None or credential is None or credential.oauth2 is None:
            return credential
        assert not isinstance(self._params, StdioConnectionParams)
        own = {"resource": credential.oauth2.resource or self._params.url}
        return credential.model_copy(update={"oauth2": credential.oauth2.model_copy(update=own)})

    @property
    def _alone(self) -> bool:
        """Whether the program's client asks for itself, at an authorization server that the MCP server is to name."""
        scheme = self._scheme
        return scheme is not None and scheme.needs_no_user and scheme.endpoints is None and not scheme.discovery_urls

    @property
    def can_ask(self) -> bool:
        """Whether there is something that a user can be asked for: access, or to sign in at the identity provider."""
        if self._provider is not None:
            return self._provider.client is None or not self._provider.client.id_token
        return self.config is not None and not self.config.auth_scheme.needs_no_user

    @property
    def _client(self) -> OAuth2Auth | None:
        return None if self._credential is None else self._credential.oauth2

    async def headers(self, context: ReadonlyContext | None) -> dict[str, str]:
        """The headers for the run of `context`, as far as there is a credential."""
        if self.config is None:
            return {} if self._credential is None else self._header(self._credential)
        credential = self._credential if context is None else await self._found(context)
        return {} if credential is None else self._header(credential)

    async def _found(self, context: ReadonlyContext, refused: AuthCredential | None = None) -> AuthCredential | None:
        assert self.config is not None
        if isinstance(context, Context):
            return await context.load_credential(self.config, refused=refused)
        ctx = context.invocation_context
        return await Access(self.config).credential(
            ctx.run.keyring, context, ctx.credential_service, None, lambda: ctx.effects.now(ctx), refused
        )

    async def renewed(self, context: ReadonlyContext, sent: Mapping[str, str], *, wider: bool = False) -> bool:
        """Whether there is another credential for the run of `context` than the one in the headers `sent`, which were
        refused; one that is kept is refreshed, and with `wider` got anew. No user is asked."""
        found = await self._found(context)
        if found is not None and (wider or self._is_in(found, sent)):
            found = None if self._is_fixed else await self._found(context, refused=found)
        return found is not None and not self._is_in(found, sent)

    @property
    def _is_fixed(self) -> bool:
        """Whether the program has given a credential that cannot be refreshed."""
        own = self._credential
        return own is not None and own.is_ready and (own.oauth2 is None or not own.oauth2.refresh_token)

    def _is_in(self, credential: AuthCredential, sent: Mapping[str, str]) -> bool:
        """Whether the headers `sent` had the credential."""
        return self._header(credential).items() <= sent.items()

    def _header(self, credential: AuthCredential) -> dict[str, str]:
        if not credential.is_ready:
            return {}
        if credential.oauth2 is not None:
            return {"Authorization": f"Bearer {credential.oauth2.access_token}"}
        if credential.http is not None:
            given = credential.http.credentials
            headers = dict(credential.http.additional_headers or {})
            if given.token:
                headers["Authorization"] = f"{credential.http.scheme.capitalize()} {given.token}"
            elif given.username or given.password:
                pair = f"{given.username or ''}:{given.password or ''}".encode()
                headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
            return headers
        name = (self._scheme.name if self._scheme is not None else None) or "X-API-Key"
        return {name: credential.api_key or ""}

    # -- asking -----------------------------------------------------------------------------------

    async def learn(self, refusal: Refusal | None) -> bool:
        """Whether a user can be asked after a server's `refusal`; what it says of itself is found out at first."""
        if self.config is None and refusal is not None and refusal.challenge and self._own_is_client:
            discovery: Any = await in_thread(lambda: import_module("flowloom.protocols.mcp.discovery"))
            assert not isinstance(self._params, StdioConnectionParams)
            self.config = await discovery.discovered(
                self._params, refusal.challenge, self._client, self._key, alone=self._alone, provider=self._provider
            )
        return self.config is not None and (self.config.auth_scheme.is_oauth or self._credential is None)

    @property
    def _own_is_client(self) -> bool:
        """Whether the program's credential is none that is sent as it is."""
        return self._credential is None or (self._client is not None and not self._credential.is_ready)

    async def ask(self, context: Context, refusal: Refusal | None, sent: Mapping[str, str]) -> bool:
        """Whether a call that was refused with the headers `sent` may be made again; asks the user if not, once for a
        call.

        Raises what pauses the run until the user has answered, `CredentialError` if access was refused.
        """
        if not await self.learn(refusal):
            return False
        assert self.config is not None
        wider = refusal is not None and refusal.status == 403
        if refusal is not None and wider and not self._widen(refusal):
            return False
        if self._has_answered(context) and not wider:  # what came of it is used, or it is refused
            return await self.renewed(context, sent)
        has_page = self._provider is None and self.can_ask  # where the user is asked for more scopes
        if not (wider and has_page) and await self.renewed(context, sent, wider=wider):
            return True
        if self._is_fixed or not self.can_ask:
            return False
        context.request_credential(self.config)
        raise InputRequiredError("Waiting for the user to give access. It has not run yet.")

    def _has_answered(self, context: Context) -> bool:
        """Whether the user has just answered to a request of the call of `context`."""
        assert self.config is not None
        asked = self.config.identity_provider or self.config
        keyring = context.invocation_context.run.keyring
        return keyring.given(asked.credential_key, context.function_call_id) is not None

    def _widen(self, refusal: Refusal) -> bool:
        """Take the scopes that a server misses into the request; whether there are any that were not asked for."""
        discovery: Any = import_module("flowloom.protocols.mcp.discovery")
        assert self.config is not None
        wider = discovery.with_scopes(self.config, refusal.challenge or "")
        if wider is None:
            return False
        self.config = wider
        return True


def _read(kind: Any, given: Any) -> Any:
    """A scheme or credential, given as such, as google-adk's, or as JSON data."""
    if isinstance(given, kind):
        return given
    other: Any = given
    try:
        if not isinstance(given, dict):
            other = other.model_dump(mode="json", by_alias=True, exclude_none=True)
        return kind.model_validate(other)
    except (ValueError, AttributeError):
        raise ConfigurationError(f"This is no {kind.__name__}.") from None
