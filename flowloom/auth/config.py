"""`AuthConfig`: what credential a tool needs, and how it is got."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, PrivateAttr, field_validator, model_validator

from flowloom.auth.credentials import AuthCredential, OAuth2Auth
from flowloom.auth.fields import AuthModel
from flowloom.auth.loading import token_exchange
from flowloom.auth.schemes import AuthScheme
from flowloom.errors import ConfigurationError

if TYPE_CHECKING:
    from flowloom.auth.exchange import TokenExchange

_PASSING = OAuth2Auth.secrets | {"auth_uri", "state", "nonce", "redirect_uri", "expires_at", "expires_in"}


class AuthConfig(AuthModel):
    """The credential that a tool needs: its scheme, and the tool's own part of it.

    `raw_auth_credential` is the tool's own part: the client id and secret of an OAuth 2 client, or a credential that
    is ready for use; None if the user has to give all of it. `exchanged_auth_credential` is the user's part: in a
    request it has the address at which the user consents, in the answer the address to which the user was redirected.

    `credential_key` is the name that the credential is stored under, by default derived from the scheme and the client
    id, so that tools of one service share a credential.

    With `identity_provider` the service's authorization server accepts assertions of an organisation's identity
    provider (cross-app access): users sign in there, once for all such services, and the service does not ask them. It
    is the `AuthConfig` of that sign-in: its scheme has the provider's address, its `raw_auth_credential` the tool's
    client there; an `id_token` in it is that of a user who has signed in already.

    Raises `ConfigurationError` for OAuth 2 and OpenID without the extra `auth`.
    """

    auth_scheme: AuthScheme
    raw_auth_credential: AuthCredential | None = None
    exchanged_auth_credential: AuthCredential | None = None
    credential_key: str = ""
    identity_provider: AuthConfig | None = None
    _exchange: TokenExchange | None = PrivateAttr(None)

    if not TYPE_CHECKING:  # type checkers see the fields

        def __init__(self, **data: Any) -> None:
            super().__init__(**data)
            if self.identity_provider is not None:
                _check_provider(self, self.identity_provider)
            if self.auth_scheme.is_oauth and self.exchanged_auth_credential is None:
                token_exchange()  # not when the first user comes

    @field_validator("auth_scheme", mode="before")
    @classmethod
    def _read_scheme(cls, value: Any) -> Any:
        """A scheme of another library's (FastAPI's, ADK's) is taken by its fields."""
        if isinstance(value, BaseModel) and not isinstance(value, AuthScheme):
            return value.model_dump(mode="json", by_alias=True, exclude_none=True)
        return value

    @model_validator(mode="after")
    def _name_credential(self) -> AuthConfig:
        self.credential_key = self.credential_key or _key_of(self.auth_scheme, self.raw_auth_credential)
        return self

    @property
    def client(self) -> OAuth2Auth | None:
        """The OAuth 2 client that the tool is."""
        return self.raw_auth_credential.oauth2 if self.raw_auth_credential is not None else None

    @property
    def exchange(self) -> TokenExchange:
        """What asks the authorization server."""
        return self._exchange or token_exchange()

    def asking_by(self, exchange: TokenExchange) -> AuthConfig:
        """The same, whose authorization server is asked by `exchange`: its addresses are not the program's own."""
        config = self.model_copy()
        config._exchange = exchange
        return config

    def with_exchanged(self, credential: AuthCredential | None) -> AuthConfig:
        """The same with what came of asking: `credential`, or None for nothing."""
        return self.model_copy(update={"exchanged_auth_credential": credential})

    def without_secrets(self) -> AuthConfig:
        """A copy that may be shown and stored; it does not tell of the identity provider."""
        raw, exchanged = self.raw_auth_credential, self.exchanged_auth_credential
        return AuthConfig(
            auth_scheme=self.auth_scheme,
            raw_auth_credential=None if raw is None else raw.without_secrets(),
            exchanged_auth_credential=None if exchanged is None else exchanged.without_secrets(),
            credential_key=self.credential_key,
        )


def _check_provider(config: AuthConfig, provider: AuthConfig) -> None:
    """Raise `ConfigurationError` if no word of the identity provider can be had with what is there."""
    if not config.auth_scheme.is_oauth or not provider.auth_scheme.is_oauth:
        raise ConfigurationError("An identity provider and the services that take its word are OAuth 2 or OpenID.")
    for whose, client in (("service's", config.client), ("identity provider's", provider.client)):
        if client is None or not client.client_id:
            raise ConfigurationError(
                f"Both servers have to know the client: give the {whose} `client_id` in `raw_auth_credential.oauth2`."
            )
    if config.credential_key == provider.credential_key:
        raise ConfigurationError(
            f"`credential_key` is {config.credential_key!r} for the service and for its identity provider, whose "
            f"credentials are kept apart: give them different ones."
        )


def _key_of(scheme: AuthScheme, raw: AuthCredential | None) -> str:
    """The same for the same service and client, whatever their secrets are."""
    shown: dict[str, Any] = {"scheme": scheme.to_wire()}
    if raw is not None:
        shown["raw"] = raw.without_secrets().to_wire()
        shown["raw"]["oauth2"] = (
            None if raw.oauth2 is None else raw.oauth2.model_dump(mode="json", exclude=set(_PASSING), exclude_none=True)
        )
    digest = hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
    return f"{scheme.type_}_{digest[:16]}"
