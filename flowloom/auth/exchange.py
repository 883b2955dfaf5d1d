"""`TokenExchange`: talks to OAuth 2 and OpenID servers, with authlib. Needs the extra `auth`."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit

from flowloom.auth.assertion import client_assertion
from flowloom.auth.bounded import AnswerTooLongError, bounding
from flowloom.auth.credentials import OAuth2Auth
from flowloom.auth.proof import SIGNED, proof_of
from flowloom.auth.refusal import TokenRefusedError
from flowloom.auth.schemes import AuthScheme, Endpoints
from flowloom.errors import ConfigurationError, CredentialError, ToolError
from flowloom.events.clock import monotonic, now
from flowloom.extras import missing_extra

try:
    import httpx
    from authlib.integrations import httpx_client
    from authlib.oauth2 import rfc7636
    from authlib.oauth2.rfc6749 import parameters
except ImportError as error:
    raise missing_extra("Credentials of OAuth 2 and OpenID servers need authlib", "auth", error) from error

_oauth: Any = httpx_client  # authlib has no types
_pkce: Any = rfc7636
_grants: Any = parameters
_CODE = re.compile(r"[A-Za-z_]{1,60}")  # of an error: what a server may add to it could quote a secret
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKENS = ("access_token", "refresh_token", "id_token")
_TLS = httpx.create_ssl_context()  # reading the certificates takes tens of milliseconds
_LIBRARY = import_module(_oauth.AsyncOAuth2Client.__bases__[-1].__module__.partition(".")[0])
"""The HTTP library that this release of authlib speaks through: httpx2, or httpx."""

MakeTransport = Callable[..., Any]
"""Makes a transport of the HTTP library that it is given, with `verify` for its TLS settings."""


class TokenExchange:
    """Finds out where a server is asked, sends users there, and exchanges what they bring back.

    Its errors are `CredentialError`s, whose texts hold the server's error code and nothing else of what it said.
    Requests go by transports of `make_transport`, whose `ToolError`s are passed on; by default wherever they lead.
    Redirects are not followed: a request holds the client's secret.
    """

    TIMEOUT_SECONDS = 30.0
    """How long a server may take for one answer."""
    DISCOVERY_SECONDS = 3600.0
    """How long what a server says of itself is believed."""

    def __init__(self, make_transport: MakeTransport | None = None) -> None:
        self._make_transport = make_transport
        self._discovered: dict[tuple[str, ...], tuple[float, dict[str, Any]]] = {}

    # -- addresses --------------------------------------------------------------------------------

    def known_endpoints(self, scheme: AuthScheme) -> Endpoints | None:
        """The server's addresses, if they are given or were discovered before."""
        given = scheme.endpoints
        if given is not None:
            return given
        found = self._discovered.get(scheme.discovery_urls)
        if found is None or monotonic() - found[0] > self.DISCOVERY_SECONDS:
            return None
        return _described(scheme, found[1])

    async def endpoints(self, scheme: AuthScheme) -> Endpoints:
        """The server's addresses. Raises `ConfigurationError` if nothing says where to find them."""
        known = self.known_endpoints(scheme)
        if known is not None:
            return known
        urls = scheme.discovery_urls
        if not urls:
            raise ConfigurationError(
                f"The `{scheme.type_}` scheme names no token endpoint. Give `flows` with `authorizationCode` or "
                f"`clientCredentials`, `authorization_endpoint` and `token_endpoint`, or the address of the server's "
                f"description (`open_id_connect_url`, `issuer_url`)."
            )
        for url in urls:
            document = await self._description(url, last=url == urls[-1])
            if document is not None:
                self._discovered[urls] = (monotonic(), document)
                return _described(scheme, document)
        raise AssertionError("unreachable: the last address raises")

    async def _description(self, url: str, *, last: bool) -> dict[str, Any] | None:
        _check_transport(url)
        try:
            async with asyncio.timeout(self.TIMEOUT_SECONDS), self._client(None) as client:
                response = await client.request("GET", url, withhold_token=True)
                if response.status_code == 404 and not last:
                    return None
                response.raise_for_status()
                document: Any = response.json()
            if not isinstance(document, dict) or "token_endpoint" not in document:
                raise ValueError("not the description of a server")
        except ToolError:  # of the transport
            raise
        except Exception as error:
            raise CredentialError(_failed(f"The authorization server's description at {url}", error)) from None
        return cast(dict[str, Any], document)

    def authorization_url(
        self, endpoints: Endpoints, client: OAuth2Auth, *, state: str, nonce: str | None, verifier: str | None
    ) -> str:
        """Where a user is sent to consent."""
        challenge: str | None = None if verifier is None else _pkce.create_s256_code_challenge(verifier)
        return _grants.prepare_grant_uri(
            endpoints.authorization,
            client.client_id,
            "code",
            redirect_uri=client.redirect_uri,
            scope=" ".join(endpoints.scopes),
            state=state,
            nonce=nonce,
            audience=client.audience,
            resource=client.resource,
            access_type="offline",  # Google gives a refresh token only then
            prompt=client.prompt or "consent",
            code_challenge=challenge,
            code_challenge_method=None if challenge is None else "S256",
        )

    # -- tokens -----------------------------------------------------------------------------------

    async def code(
        self, endpoints: Endpoints, client: OAuth2Auth, *, code: str, redirect_uri: str | None, verifier: str | None
    ) -> OAuth2Auth:
        """The tokens for an authorization code."""
        given: dict[str, Any] = {"code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
        given["resource"] = client.resource
        return await self._token(endpoints.token, endpoints, client, "authorization_code", given)

    async def own(self, endpoints: Endpoints, client: OAuth2Auth) -> OAuth2Auth:
        """A token for the client itself."""
        given: dict[str, Any] = {"scope": " ".join(endpoints.scopes) or None, "audience": client.audience}
        given["resource"] = client.resource
        return await self._token(endpoints.token, endpoints, client, "client_credentials", given)

    async def refreshed(self, endpoints: Endpoints, client: OAuth2Auth, expired: OAuth2Auth) -> OAuth2Auth:
        """New tokens for a refresh token, which is kept if the server gives no other."""
        given = {"refresh_token": expired.refresh_token, "resource": client.resource}
        tokens = await self._token(endpoints.refresh, endpoints, client, "refresh_token", given)
        tokens.refresh_token = tokens.refresh_token or expired.refresh_token
        tokens.id_token = tokens.id_token or expired.id_token
        return tokens

    async def word(
        self,
        provider: Endpoints,
        client: OAuth2Auth,
        id_token: str,
        *,
        audience: str,
        service: OAuth2Auth,
        scopes: Sequence[str],
    ) -> str:
        """What an identity provider says of its user to the authorization server `audience` (an ID-JAG), for the
        `id_token` of the sign-in there as `client`; `service` is the client at that server (RFC 8693)."""
        given = {
            "requested_token_type": _ID_JAG,
            "audience": audience,
            "resource": service.resource,
            "scope": " ".join(scopes),
            "subject_token": id_token,
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        }
        token = await self._answer(provider.token, provider, client, _TOKEN_EXCHANGE, given, "identity provider")
        if token.get("issued_token_type") != _ID_JAG:  # another token is not shown to the authorization server
            raise CredentialError("The identity provider gave another token than was asked for: no ID-JAG.")
        return token["access_token"]

    async def vouched(self, endpoints: Endpoints, client: OAuth2Auth, word: str) -> OAuth2Auth:
        """A token for a user whose identity provider has given its `word` (RFC 7523)."""
        given = {"assertion": word, "scope": " ".join(endpoints.scopes)}
        return await self._token(endpoints.token, endpoints, client, _JWT_BEARER, given)

    async def _token(
        self, url: str, endpoints: Endpoints, client: OAuth2Auth, grant: str, given: dict[str, Any]
    ) -> OAuth2Auth:
        token = await self._answer(url, endpoints, client, grant, given, "authorization server")
        told = token.get("expires_in")
        expires_in = int(told) if told or told == 0 else None
        return OAuth2Auth(
            client_id=client.client_id,
            access_token=token["access_token"],
            refresh_token=token.get("refresh_token"),
            id_token=token.get("id_token"),
            expires_in=expires_in,
            expires_at=None if expires_in is None else int(now()) + expires_in,
        )

    async def _answer(
        self, url: str, endpoints: Endpoints, client: OAuth2Auth, grant: str, given: dict[str, Any], who: str
    ) -> dict[str, Any]:
        """The answer to a request for a token, with a token in it. Raises `TokenRefusedError`, `CredentialError`."""
        _check_transport(url)
        values = {name: value for name, value in given.items() if value}
        proof = proof_of(client, endpoints.methods)
        values |= client_assertion(client, proof, endpoints.issuer or endpoints.token)
        method = "none" if proof is None or proof in SIGNED else proof
        try:
            async with asyncio.timeout(self.TIMEOUT_SECONDS), self._client(client, method) as session:
                token: Any = await session.fetch_token(url, grant_type=grant, **values)
            if not token.get("access_token") or not all(isinstance(token.get(name) or "", str) for name in _TOKENS):
                raise ValueError("no token in the answer")
            int(token.get("expires_in") or 0)
        except _oauth.OAuthError as error:
            raise _refused(who, error.error) from None
        except ToolError:
            raise
        except Exception as error:
            raise CredentialError(_failed(f"The token endpoint of the {who}", error)) from None
        return dict(token)

    @staticmethod
    def check_id_token(tokens: OAuth2Auth, client: OAuth2Auth, *, nonce: str | None, issuer: str | None) -> None:
        """Raise `CredentialError` for an id token that was made for somebody else.

        It comes from the server itself over TLS, which stands for its signature (OpenID Connect Core, 3.1.3.7).
        """
        if tokens.id_token is None:
            return
        try:
            body = tokens.id_token.split(".")[1]
            claims: Any = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            audience = claims["aud"]
            said_nonce, said_issuer = claims.get("nonce"), claims.get("iss")
        except (LookupError, TypeError, ValueError, AttributeError):
            raise CredentialError("The authorization server sent an id token that cannot be read.") from None
        fits = client.client_id in audience if isinstance(audience, list) else client.client_id == audience
        if not fits or (nonce is not None and said_nonce != nonce) or (issuer is not None and said_issuer != issuer):
            raise CredentialError(
                "The authorization server sent an id token that was not made for this request. Ask for access again."
            )

    def _client(self, client: OAuth2Auth | None, method: str | None = None) -> Any:
        reach: dict[str, Any] = {"verify": _TLS}
        if self._make_transport is not None:
            reach = {"transport": self._make_transport(_LIBRARY, verify=_TLS)}
        return _oauth.AsyncOAuth2Client(
            client_id=None if client is None else client.client_id,
            client_secret=None if client is None else client.client_secret,
            token_endpoint_auth_method=method,
            timeout=self.TIMEOUT_SECONDS,
            follow_redirects=False,
            event_hooks={"response": [bounding()]},
            **reach,
        )


def _described(scheme: AuthScheme, document: dict[str, Any]) -> Endpoints:
    """The addresses in a server's description of itself."""
    token = str(document["token_endpoint"])
    return Endpoints(
        None if scheme.needs_no_user else document.get("authorization_endpoint"),
        token,
        token,
        tuple(scheme.scopes or (("openid",) if scheme.type_ == "openIdConnect" else ())),
        "S256" in (document.get("code_challenge_methods_supported") or ()),
        document.get("issuer"),
        tuple(document.get("token_endpoint_auth_methods_supported") or ()),
    )


def _check_transport(url: str) -> None:
    """Raise `ConfigurationError` if secrets would be sent in the clear to another machine."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return
    host = parts.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if parts.scheme != "http" or not local:
        raise ConfigurationError(f"The authorization server's address {url} is not safe: it has to begin with https.")


def _refused(who: str, said: Any) -> TokenRefusedError:
    code = said if isinstance(said, str) and _CODE.fullmatch(said) else None
    told = f" (`{code}`)" if code else ""
    return TokenRefusedError(f"The {who} refused to give a token{told}. Ask for access again.", code)


def _failed(what: str, error: Exception) -> str:
    status: Any = getattr(getattr(error, "response", None), "status_code", None)
    reason = f"HTTP {status}" if isinstance(status, int) else type(error).__name__
    if isinstance(error, AnswerTooLongError):
        reason = error.told
    return f"{what} gave no usable answer ({reason}). Try again later."
