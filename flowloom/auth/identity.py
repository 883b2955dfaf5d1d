"""Cross-app access: a service takes the word of an identity provider for the provider's users (ID-JAG).

The id token of the user's sign-in is exchanged at the provider for its word to one authorization server (RFC 8693), and
that one there for a token (RFC 7523). The user is asked nothing but to sign in, once for all services.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from flowloom.auth.config import AuthConfig
from flowloom.auth.credentials import AuthCredential, OAuth2Auth
from flowloom.auth.refusal import TokenRefusedError
from flowloom.auth.schemes import Endpoints
from flowloom.errors import ConfigurationError, CredentialError

SignIn = Callable[[AuthCredential | None], Awaitable[AuthCredential | None]]
"""Gives the sign-in that there is, another one than the one that it is given; None if the user has to be asked."""
_STALE = ("invalid_grant", "invalid_request")
"""What an identity provider answers to an id token that has expired (RFC 8693); any other refusal is its policy."""


async def vouched_tokens(
    config: AuthConfig, provider: AuthConfig, endpoints: Endpoints, sign_in: SignIn, *, may_ask: bool
) -> OAuth2Auth | None:
    """Tokens of the service of `config`, whose authorization server has the `endpoints`, by the word of the identity
    `provider`; None if the user has to sign in there, which without `may_ask` they have just done.

    Raises `CredentialError` if the provider gives no word, or the service does not take it.
    """
    if provider.client is not None and provider.client.id_token:
        return await _tokens(config, provider, endpoints, provider.client.id_token)
    refused: AuthCredential | None = None
    for _ in range(2):  # the second time with a sign-in that was refreshed
        signed_in = await sign_in(refused)
        if signed_in is None:
            return None
        try:
            return await _tokens(config, provider, endpoints, _id_token(signed_in))
        except TokenRefusedError as error:
            if error.code not in _STALE or not may_ask:
                raise
        refused = signed_in
    return None


async def _tokens(config: AuthConfig, provider: AuthConfig, endpoints: Endpoints, id_token: str) -> OAuth2Auth:
    """Raises `TokenRefusedError` if the provider refuses, another `CredentialError` for all else."""
    assert config.client is not None
    assert provider.client is not None
    if endpoints.issuer is None:
        raise ConfigurationError(
            "An identity provider gives its word to one authorization server: give the `issuer_url` of the service's "
            "scheme."
        )
    where = await provider.exchange.endpoints(provider.auth_scheme)
    word = await provider.exchange.word(
        where, provider.client, id_token, audience=endpoints.issuer, service=config.client, scopes=endpoints.scopes
    )
    try:
        return await config.exchange.vouched(endpoints, config.client, word)
    except TokenRefusedError as error:  # which signing in once more would not change
        raise CredentialError(f"The service does not take the word of the identity provider. {error}") from None


def _id_token(signed_in: AuthCredential) -> str:
    token = signed_in.oauth2.id_token if signed_in.oauth2 is not None else None
    if not token:
        raise CredentialError("The sign-in at the identity provider brought no id token: ask for the scope `openid`.")
    return token
