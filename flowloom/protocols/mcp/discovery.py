"""From a server's 401 to the request for a credential: RFC 9728, RFC 8414, RFC 7591 (protocols spec §1, Auth).

Whoever imports this module loads the HTTP client.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from flowloom.auth import AuthConfig, AuthCredential, AuthCredentialTypes, AuthScheme, OAuth2Auth, OAuthFlow, OAuthFlows
from flowloom.errors import ToolError
from flowloom.protocols.addresses import is_same_origin, origin_of, shown_address
from flowloom.protocols.mcp.parameters import SseConnectionParams, StreamableHTTPConnectionParams

_FIELD = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')
REDIRECT = "http://localhost:8000/oauth/callback"
"""Where a user is sent back to, if the program does not say."""


async def discovered(
    params: StreamableHTTPConnectionParams | SseConnectionParams,
    challenge: str,
    client: OAuth2Auth | None,
    key: str | None,
) -> AuthConfig | None:
    """The request for a credential that a server's `challenge` leads to; None if it leads nowhere.

    `client` is what the program has of an OAuth client, `key` the name under which the credential is to be kept.
    Raises `ToolError` for an authorization server that cannot be used.
    """
    said = _fields(challenge)
    async with httpx2.AsyncClient(timeout=params.timeout, follow_redirects=False) as http:
        resource = await _resource(http, params.url, said.get("resource_metadata"))
        if resource is None:
            return None
        servers: Any = resource.get("authorization_servers") or ()
        issuer = str(next(iter(servers), ""))
        server = await _server(http, issuer) if issuer else None
        if server is None:
            return None
        if "S256" not in (server.get("code_challenge_methods_supported") or ()):
            raise ToolError(
                f"The authorization server {shown_address(issuer)} offers no PKCE with S256: it is not used."
            )
        identifier = str(resource.get("resource") or params.url)
        known = client if client is not None and client.client_id else await _registered(http, server, client)
    scopes = (said.get("scope") or " ".join(resource.get("scopes_supported") or ())).split()
    flow = OAuthFlow(
        authorization_url=str(server["authorization_endpoint"]),
        token_url=str(server["token_endpoint"]),
        scopes=dict.fromkeys(scopes, ""),
    )
    told = hashlib.sha256(f"{issuer}\n{identifier}".encode()).hexdigest()[:16]
    return AuthConfig(
        auth_scheme=AuthScheme(type="oauth2", flows=OAuthFlows(authorization_code=flow)),
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2,
            oauth2=known.model_copy(
                update={
                    "redirect_uri": known.redirect_uri or REDIRECT,
                    "code_challenge_method": "S256",
                    "resource": identifier,
                }
            ),
        ),
        credential_key=key or f"mcp_{told}",
    )


def with_scopes(config: AuthConfig, challenge: str) -> AuthConfig | None:
    """The request for the scopes asked for before and those of a `challenge`; None if these bring nothing new."""
    said = _fields(challenge)
    flow = config.auth_scheme.flows.authorization_code if config.auth_scheme.flows is not None else None
    missing = [each for each in said.get("scope", "").split() if flow is not None and each not in flow.scopes]
    if said.get("error") != "insufficient_scope" or flow is None or not missing:
        return None
    wider = flow.model_copy(update={"scopes": {**flow.scopes, **dict.fromkeys(missing, "")}})
    scheme = config.auth_scheme.model_copy(update={"flows": OAuthFlows(authorization_code=wider)})
    return config.model_copy(update={"auth_scheme": scheme})


def _fields(challenge: str) -> dict[str, str]:
    return {name.lower(): quoted or plain for name, quoted, plain in _FIELD.findall(challenge)}


async def _resource(http: httpx2.AsyncClient, url: str, told: str | None) -> dict[str, Any] | None:
    """What the server says of itself as a protected resource; only about its own origin is it believed."""
    scheme, host, port = origin_of(url)
    base, path = f"{scheme}://{host if ':' not in host else f'[{host}]'}:{port}", urlsplit(url).path.rstrip("/")
    known = "/.well-known/oauth-protected-resource"
    for address in dict.fromkeys(filter(None, (told, f"{base}{known}{path}", f"{base}{known}"))):
        if not is_same_origin(address, url):
            continue
        found = await _document(http, address)
        if found is not None and found.get("authorization_servers"):
            if not is_same_origin(str(found.get("resource") or url), url):
                raise ToolError(f"The server at {shown_address(url)} describes another one as itself.")
            return found
    return None


async def _server(http: httpx2.AsyncClient, issuer: str) -> dict[str, Any] | None:
    """What the authorization server says of itself."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    for address in dict.fromkeys(
        (
            f"{base}/.well-known/oauth-authorization-server{path}",
            f"{base}/.well-known/openid-configuration{path}",
            f"{base}{path}/.well-known/openid-configuration",
        )
    ):
        found = await _document(http, address)
        if found is not None and found.get("authorization_endpoint") and found.get("token_endpoint"):
            if str(found.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
                raise ToolError(f"The authorization server {shown_address(issuer)} names another one as itself.")
            return found
    return None


async def _registered(http: httpx2.AsyncClient, server: dict[str, Any], client: OAuth2Auth | None) -> OAuth2Auth:
    """A client of an authorization server, registered there and then."""
    address = server.get("registration_endpoint")
    if not address:
        raise ToolError("The authorization server registers no clients: give a `client_id` in `auth_credential`.")
    _check_safe(str(address))
    redirect = (None if client is None else client.redirect_uri) or REDIRECT
    asked = {
        "client_name": "flowloom",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    try:
        answer = await http.post(str(address), json=asked)
        answer.raise_for_status()
        given = cast(dict[str, Any], answer.json())
        return OAuth2Auth(
            client_id=str(given["client_id"]), client_secret=given.get("client_secret"), redirect_uri=redirect
        )
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ToolError(f"The authorization server did not register a client ({type(error).__name__}).") from None


async def _document(http: httpx2.AsyncClient, address: str) -> dict[str, Any] | None:
    _check_safe(address)
    try:
        answer = await http.get(address)
        found: Any = answer.json() if answer.status_code == 200 else None
    except (httpx2.HTTPError, ValueError):
        return None
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def _check_safe(address: str) -> None:
    """Raise `ToolError` for an address that is not encrypted, unless it is on this machine."""
    scheme, host, _ = origin_of(address)
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if scheme != "https" and not (scheme == "http" and local):
        raise ToolError(f"The address {shown_address(address)} is not safe: it has to begin with https.")
