"""`AuthCredential`: a credential, before and after it is exchanged for a token. ADK's names and wire format."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from flowloom.auth.fields import AuthModel

ProofMethod = Literal["client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt"]
"""How a client proves itself to an authorization server, by the names of OpenID Connect."""


class AuthCredentialTypes(StrEnum):
    """The kinds of credentials, as OpenAPI names them."""

    API_KEY = "apiKey"
    HTTP = "http"
    OAUTH2 = "oauth2"
    OPEN_ID_CONNECT = "openIdConnect"
    SERVICE_ACCOUNT = "serviceAccount"


class HttpCredentials(AuthModel):
    """What an `Authorization` header is made of: user name and password, or a token."""

    username: str | None = None
    password: str | None = None
    token: str | None = None


class HttpAuth(AuthModel):
    """HTTP authentication: its scheme (`basic`, `bearer`, ...) and what goes with it."""

    scheme: str
    credentials: HttpCredentials = Field(default_factory=HttpCredentials)
    additional_headers: dict[str, str] | None = None


class OAuth2Auth(AuthModel):
    """A client of an OAuth 2 or OpenID server, and the codes and tokens that it got by a user's consent."""

    client_id: str | None = None
    client_secret: str | None = None
    """None for a client that has a key, or is public and proves itself by PKCE alone."""
    private_key: str | None = None
    """The key that the client signs with (`private_key_jwt`): RSA, EC or Ed25519, as PEM text or as a JSON Web Key."""
    key_id: str | None = None
    """Which of the client's registered keys that is; None if the server knows, or the JSON Web Key says so."""
    signing_algorithm: str | None = None
    """With what it signs (`ES256`, `PS256`, ...); None for the usual one of its kind."""
    auth_uri: str | None = None
    """Where the user is sent to consent."""
    nonce: str | None = None
    state: str | None = None
    """What the answer has to bring back."""
    redirect_uri: str | None = None
    """Where the server sends the user then; None leaves it to the client program."""
    auth_response_uri: str | None = None
    """The address that the server sent the user back to, with the code in it."""
    auth_code: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    id_token: str | None = None
    expires_at: int | None = None
    """When the access token expires, in epoch seconds."""
    expires_in: int | None = None
    audience: str | None = None
    resource: str | None = None
    """For which resource tokens are asked (RFC 8707)."""
    prompt: str | None = None
    code_verifier: str | None = None
    code_challenge_method: str | None = None
    """`S256` asks for PKCE; public clients, and servers whose discovery document names it, get it anyway."""
    token_endpoint_auth_method: ProofMethod | None = "client_secret_basic"
    """How the client proves itself; if it is not set, as the server takes it, and best with the key."""


class ServiceAccount(AuthModel):
    """A service account, kept as it is: it is not exchanged here."""

    service_account_credential: dict[str, Any] | None = None
    scopes: list[str] | None = None
    use_default_credential: bool | None = False
    use_id_token: bool | None = False
    audience: str | None = None


class AuthCredential(AuthModel):
    """A credential of one kind: `api_key`, `http`, `oauth2` (for OpenID Connect too) or `service_account`."""

    auth_type: AuthCredentialTypes
    resource_ref: str | None = None
    api_key: str | None = None
    http: HttpAuth | None = None
    service_account: ServiceAccount | None = None
    oauth2: OAuth2Auth | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it can be used as it is."""
        if self.oauth2 is not None:
            return bool(self.oauth2.access_token)
        if self.http is not None:
            given = self.http.credentials
            return bool(given.token or given.password or self.http.additional_headers)
        return bool(self.api_key)

    def without_secrets(self) -> AuthCredential:
        """A copy that may be shown and stored: who the client is, where consent is given, nothing that opens a door."""
        shown = AuthCredential(auth_type=self.auth_type, resource_ref=self.resource_ref)
        if self.http is not None:
            shown.http = HttpAuth(
                scheme=self.http.scheme, credentials=HttpCredentials(username=self.http.credentials.username)
            )
        if self.oauth2 is not None:
            fields = OAuth2Auth.model_fields.keys() - OAuth2Auth.secrets
            shown.oauth2 = OAuth2Auth(**{name: getattr(self.oauth2, name) for name in fields})
        return shown
