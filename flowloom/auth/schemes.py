"""`AuthScheme`: how a service wants to be shown who calls, as OpenAPI describes it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from flowloom.auth.fields import AuthModel


class OAuthFlow(AuthModel):
    """The addresses and scopes of one OAuth 2 flow; scopes with what they are for."""

    authorization_url: str | None = None
    token_url: str | None = None
    refresh_url: str | None = None
    scopes: dict[str, str] = Field(default_factory=dict)


class OAuthFlows(AuthModel):
    """The flows that an OAuth 2 server offers."""

    implicit: OAuthFlow | None = None
    password: OAuthFlow | None = None
    client_credentials: OAuthFlow | None = None
    authorization_code: OAuthFlow | None = None


class Endpoints(NamedTuple):
    """Where an OAuth 2 server is asked."""

    authorization: str | None
    """None if no user is asked: the client's own credentials are enough."""
    token: str
    refresh: str
    scopes: tuple[str, ...] = ()
    pkce: bool = False
    """Whether the server says that it wants PKCE."""
    issuer: str | None = None
    methods: tuple[str, ...] = ()
    """The ways in which clients may prove themselves, as far as the server says."""


class AuthScheme(AuthModel):
    """A security scheme of OpenAPI 3: `apiKey`, `http`, `oauth2` (with `flows`) or `openIdConnect`.

    The addresses of an OpenID server come from `open_id_connect_url` (its discovery document), or are given as
    `authorization_endpoint` and `token_endpoint`; those of an OAuth 2 server may be left to its `issuer_url`. `scopes`
    are those to ask for where no flow lists them.
    """

    type_: Literal["apiKey", "http", "oauth2", "openIdConnect"] = Field(alias="type")
    description: str | None = None
    in_: Literal["query", "header", "cookie"] | None = Field(default=None, alias="in")
    """Where an API key goes, and `name` how it is called there."""
    name: str | None = None
    scheme: str | None = None
    """The HTTP scheme: `basic`, `bearer`, ..."""
    bearer_format: str | None = None
    flows: OAuthFlows | None = None
    open_id_connect_url: str | None = None
    # ADK writes these as they are, not in camelCase
    issuer_url: str | None = Field(default=None, serialization_alias="issuer_url")
    authorization_endpoint: str | None = Field(default=None, serialization_alias="authorization_endpoint")
    token_endpoint: str | None = Field(default=None, serialization_alias="token_endpoint")
    userinfo_endpoint: str | None = Field(default=None, serialization_alias="userinfo_endpoint")
    revocation_endpoint: str | None = Field(default=None, serialization_alias="revocation_endpoint")
    scopes: list[str] | None = None

    @property
    def is_oauth(self) -> bool:
        """Whether credentials are tokens of an OAuth 2 or OpenID server."""
        return self.type_ in ("oauth2", "openIdConnect")

    @property
    def discovery_urls(self) -> tuple[str, ...]:
        """Where the server's own description may be found, the likeliest address first."""
        if self.open_id_connect_url:
            return (self.open_id_connect_url,)
        if not self.issuer_url:
            return ()
        issuer = self.issuer_url.rstrip("/")
        return (f"{issuer}/.well-known/oauth-authorization-server", f"{issuer}/.well-known/openid-configuration")

    @property
    def endpoints(self) -> Endpoints | None:
        """The addresses, as far as they are given here; None if the server has to be asked for them."""
        scopes = tuple(self.scopes or ())
        if self.token_endpoint:
            token = self.token_endpoint
            return Endpoints(self.authorization_endpoint, token, token, scopes, issuer=self.issuer_url)
        flows = self.flows
        code, own = (flows.authorization_code, flows.client_credentials) if flows is not None else (None, None)
        flow = own or code  # ADK takes them in this order
        if flow is None or not flow.token_url:
            return None
        asked = flow.authorization_url if flow is code else None
        refresh, scopes = flow.refresh_url or flow.token_url, scopes or tuple(flow.scopes)
        return Endpoints(asked, flow.token_url, refresh, scopes, issuer=self.issuer_url)

    @property
    def needs_no_user(self) -> bool:
        """Whether the client's own credentials are exchanged for a token (the flow `client_credentials`)."""
        return self.flows is not None and self.flows.client_credentials is not None
