"""Asking a user for consent, and checking what comes back: state, PKCE and nonce (RFC 6749, RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from pydantic_core import from_json

from flowloom.auth.answers import AuthAnswer
from flowloom.auth.config import AuthConfig
from flowloom.auth.credentials import AuthCredential, OAuth2Auth
from flowloom.auth.schemes import AuthScheme, Endpoints
from flowloom.errors import ConfigurationError, ContextError, CredentialError

_REFUSED = "The user gave no access. Go on without it, or call the tool again to ask once more."


def consent_request(config: AuthConfig, secret: bytes, state: str) -> AuthConfig:
    """What a user is asked, without any secret: with the address to consent at, if there is one.

    PKCE verifier and nonce are derived from `secret` and `state`, so that nobody has to keep them. Raises
    `ContextError` if the server's addresses are not known yet, `ConfigurationError` if no user can be asked.
    """
    scheme, client = config.auth_scheme, config.client
    if not scheme.is_oauth:
        return config.with_exchanged(None).without_secrets()
    if client is None or not client.client_id:
        raise ConfigurationError(
            f"The `{scheme.type_}` scheme needs a `client_id` in `raw_auth_credential.oauth2` to ask a user for access."
        )
    assert config.raw_auth_credential is not None
    if client.auth_uri:
        return config.with_exchanged(config.raw_auth_credential).without_secrets()
    endpoints = config.exchange.known_endpoints(scheme)
    if endpoints is None:
        raise ContextError(
            "The authorization server has not been asked for its addresses yet. Call `await "
            "tool_context.load_credential(auth_config)` first, or give the addresses in the scheme."
        )
    if not endpoints.authorization:
        raise ConfigurationError(
            "No user can be asked: the scheme names no authorization endpoint. A client's own token comes from "
            "`await tool_context.load_credential(auth_config)`."
        )
    verifier = _verifier(client, secret, state) if _uses_pkce(client, endpoints) else None
    nonce = client.nonce or (derived(secret, "nonce", state) if "openid" in endpoints.scopes else None)
    url = config.exchange.authorization_url(endpoints, client, state=state, nonce=nonce, verifier=verifier)
    exchanged = client.model_copy(
        update={
            "auth_uri": url,
            "state": state,
            "nonce": nonce,
            "code_challenge_method": None if verifier is None else "S256",
        }
    )
    credential = AuthCredential(auth_type=config.raw_auth_credential.auth_type, oauth2=exchanged)
    return config.with_exchanged(credential).without_secrets()


def code_in(answer: OAuth2Auth, request: OAuth2Auth) -> str:
    """The authorization code in an answer. Raises `CredentialError` if it is not the answer to `request`."""
    code, state = answer.auth_code, answer.state
    if answer.auth_response_uri:
        parts = urlsplit(answer.auth_response_uri)
        values = parse_qs(parts.query or parts.fragment)
        if "error" in values:
            raise CredentialError(_REFUSED)
        code, state = values.get("code", [None])[0], values.get("state", [None])[0]
    if request.state and not hmac.compare_digest((state or "").encode(), request.state.encode()):
        raise CredentialError(
            "The user's answer belongs to another request: its `state` is a different one. It was not used. Call the "
            "tool again to ask once more."
        )
    if not code:
        raise CredentialError(_REFUSED)
    return code


def credential_in(answer: AuthAnswer, scheme: AuthScheme) -> AuthCredential:
    """The credential in an answer. Raises `CredentialError` if there is none of the kind that `scheme` asks for.

    It is the `exchangedAuthCredential` of an `AuthConfig`, an `AuthCredential`, or JSON text of either.
    """
    data = _unwrapped(answer.response, scheme)
    exchanged = data.get("exchangedAuthCredential", data.get("exchanged_auth_credential"))
    if exchanged is None and ("authType" in data or "auth_type" in data):
        exchanged = data
    if not isinstance(exchanged, Mapping) or not exchanged:
        raise CredentialError(_REFUSED)
    try:
        given: Any = {**cast(Mapping[str, Any], exchanged)}
        if "auth_type" not in given:
            given.setdefault("authType", scheme.type_)
        credential = AuthCredential.model_validate(given)
    except ValueError:  # its text is not shown: it may quote the answer
        raise CredentialError("The user's answer is no credential. Call the tool again to ask once more.") from None
    kind = {"apiKey": credential.api_key, "http": credential.http}.get(scheme.type_, credential.oauth2)
    if not kind:
        raise CredentialError(
            f"The user's answer holds no credential of the kind `{scheme.type_}`. Call the tool again to ask once more."
        )
    return credential


async def redeem(config: AuthConfig, request: AuthConfig, answer: AuthAnswer, secret: bytes) -> AuthCredential:
    """The credential that a user's answer comes to: as it was given, or a token for the code in it.

    `config` is the tool's own, `request` what the user was asked. Raises `CredentialError`.
    """
    scheme, client = config.auth_scheme, config.client
    given = credential_in(answer, scheme)
    if not scheme.is_oauth or given.oauth2 is None:
        return given
    asked = request.exchanged_auth_credential
    asked_oauth2 = asked.oauth2 if asked is not None and asked.oauth2 is not None else OAuth2Auth()
    if given.oauth2.access_token:
        return AuthCredential(auth_type=given.auth_type, oauth2=_tokens_of(given.oauth2, client))
    code = code_in(given.oauth2, asked_oauth2)
    exchange = config.exchange
    endpoints = await exchange.endpoints(scheme)
    if client is None or not client.client_id:
        raise ConfigurationError("A code is exchanged for a client: give `raw_auth_credential.oauth2.client_id`.")
    state = asked_oauth2.state or ""
    verifier = _verifier(client, secret, state) if asked_oauth2.code_challenge_method == "S256" else None
    redirect_uri = client.redirect_uri or given.oauth2.redirect_uri
    tokens = await exchange.code(endpoints, client, code=code, redirect_uri=redirect_uri, verifier=verifier)
    exchange.check_id_token(tokens, client, nonce=asked_oauth2.nonce, issuer=endpoints.issuer)
    return AuthCredential(auth_type=given.auth_type, oauth2=tokens)


def derived(secret: bytes, purpose: str, state: str) -> str:
    """43 characters that nobody can tell who does not know `secret`."""
    digest = hmac.new(secret, f"{purpose}\0{state}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _verifier(client: OAuth2Auth, secret: bytes, state: str) -> str:
    return client.code_verifier or derived(secret, "pkce", state)


def _uses_pkce(client: OAuth2Auth, endpoints: Endpoints) -> bool:
    method = client.code_challenge_method
    if method not in (None, "S256"):
        raise ConfigurationError(f"The PKCE method `{method}` is not supported; only `S256` is.")
    return method == "S256" or endpoints.pkce or not client.client_secret


def _tokens_of(given: OAuth2Auth, client: OAuth2Auth | None) -> OAuth2Auth:
    names = ("access_token", "refresh_token", "id_token", "expires_at", "expires_in")
    tokens = OAuth2Auth(**{name: getattr(given, name) for name in names})
    tokens.client_id = None if client is None else client.client_id
    return tokens


def _unwrapped(response: Mapping[str, Any], scheme: AuthScheme) -> Mapping[str, Any]:
    """The answer out of the form that ADK's web page gives it: JSON text, or a key as it is, under `response`."""
    if set(response) != {"response"}:
        return response
    inner: Any = response["response"]
    if isinstance(inner, str):
        try:
            inner = from_json(inner)
        except ValueError:
            if scheme.type_ != "apiKey" or not inner:
                return {}
            return {"authType": "apiKey", "apiKey": inner}
    return cast(Mapping[str, Any], inner) if isinstance(inner, Mapping) else {}
