"""From a server's 401 to the request for a credential: RFC 9728, RFC 8414, RFC 7591 (protocols spec §1, Auth).

Whoever imports this module loads the HTTP client.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from flowloom.auth import AuthConfig, AuthCredential, AuthCredentialTypes, AuthScheme, OAuth2Auth, OAuthFlow, OAuthFlows
from flowloom.auth.bounded import AnswerTooLongError, bounding
from flowloom.auth.loading import token_exchange_by
from flowloom.auth.proof import proof_of
from flowloom.errors import ToolError
from flowloom.protocols.addresses import is_same_origin, origin_of, shown_address
from flowloom.protocols.guarded import guarded_transport
from flowloom.protocols.loading import in_thread
from flowloom.protocols.mcp.parameters import SseConnectionParams, StreamableHTTPConnectionParams
from flowloom.protocols.targets import AddressRefusedError, Kinds, check_target, kinds_at

_FIELD = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')
REDIRECT = "http://localhost:8000/oauth/callback"
"""Where a user is sent back to, if the program does not say."""
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint")
_METHODS = "token_endpoint_auth_methods_supported"
_PROOFS = ("none", "client_secret_basic", "client_secret_post")
"""How a client may prove itself that is registered here, the best first."""


async def discovered(
    params: StreamableHTTPConnectionParams | SseConnectionParams,
    challenge: str,
    client: OAuth2Auth | None,
    key: str | None,
    *,
    alone: bool = False,
    provider: AuthConfig | None = None,
) -> AuthConfig | None:
    """The request for a credential that a server's `challenge` leads to; None if it leads nowhere.

    `client` is what the program has of an OAuth client, `key` the name under which the credential is to be kept; with
    `alone` the client asks for itself (the flow `client_credentials`), and no user.
    Addresses that the server names are asked only if they are public, or where the server itself is: on this machine,
    in a private network. Raises `ToolError` for an authorization server that cannot be used.
    """
    alone = alone or provider is not None
    said = _fields(challenge)
    _, host, port = origin_of(params.url)
    beside = await kinds_at(host, port or 443)
    transport = await in_thread(lambda: guarded_transport(httpx2, allow_private=beside))
    try:
        async with httpx2.AsyncClient(
            transport=transport,
            timeout=params.timeout,
            follow_redirects=False,
            event_hooks={"response": [bounding()]},
        ) as http:
            resource = await _resource(http, params.url, said.get("resource_metadata"))
            issuer = str(next(iter(cast(Any, resource.get("authorization_servers")) or ()), ""))
            server = await _server(http, issuer, alone) if issuer else await _older(http, params.url)
            if server is None:
                return None
            await _check_usable(server, beside, alone)
            known = client if client is not None and client.client_id else await _registered(http, server, client)
    except AddressRefusedError as error:
        raise ToolError(
            f"What {params.address} says of its authorization server leads to a place that is not asked. {error}"
        ) from error
    identifier = str(resource.get("resource") or params.url)
    scopes = (said.get("scope") or " ".join(resource.get("scopes_supported") or ())).split()
    flow = OAuthFlow(
        authorization_url=None if alone else str(server["authorization_endpoint"]),
        token_url=str(server["token_endpoint"]),
        scopes=dict.fromkeys(scopes, ""),
    )
    flows = OAuthFlows(client_credentials=flow) if alone else OAuthFlows(authorization_code=flow)
    told = hashlib.sha256(f"{server['issuer']}\n{identifier}".encode()).hexdigest()[:16]
    own = {
        "redirect_uri": known.redirect_uri or REDIRECT,
        "code_challenge_method": "S256",
        "resource": identifier,
        "token_endpoint_auth_method": proof_of(known, _names(server.get(_METHODS))),
    }
    config = AuthConfig(
        auth_scheme=AuthScheme(type="oauth2", flows=flows, issuer_url=str(server["issuer"])),
        raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=known.model_copy(update=own)),
        credential_key=key or f"mcp_{told}",
        identity_provider=provider,
    )
    return config.asking_by(token_exchange_by(partial(guarded_transport, allow_private=beside)))


def with_scopes(config: AuthConfig, challenge: str) -> AuthConfig | None:
    """The request for the scopes asked for before and those of a `challenge`; None if these bring nothing new."""
    said, flows = _fields(challenge), config.auth_scheme.flows or OAuthFlows()
    name = "client_credentials" if flows.client_credentials is not None else "authorization_code"
    flow: OAuthFlow | None = getattr(flows, name)
    missing = [each for each in said.get("scope", "").split() if flow is not None and each not in flow.scopes]
    if said.get("error") != "insufficient_scope" or flow is None or not missing:
        return None
    wider = flow.model_copy(update={"scopes": {**flow.scopes, **dict.fromkeys(missing, "")}})
    scheme = config.auth_scheme.model_copy(update={"flows": OAuthFlows(**{name: wider})})
    return config.model_copy(update={"auth_scheme": scheme})


def _fields(challenge: str) -> dict[str, str]:
    return {name.lower(): quoted or plain for name, quoted, plain in _FIELD.findall(challenge)}


async def _resource(http: httpx2.AsyncClient, url: str, told: str | None) -> dict[str, Any]:
    """What the server says of itself as a protected resource; only about its own origin is it believed."""
    base, path = _base(url), urlsplit(url).path.rstrip("/")
    known = "/.well-known/oauth-protected-resource"
    for address in dict.fromkeys(filter(None, (told, f"{base}{known}{path}", f"{base}{known}"))):
        if not is_same_origin(address, url):
            continue
        found = await _document(http, address)
        if found is not None and found.get("authorization_servers"):
            if not is_same_origin(str(found.get("resource") or url), url):
                raise ToolError(f"The server at {shown_address(url)} describes another one as itself.")
            return found
    return {}


def _base(url: str) -> str:
    """The origin of `url` as an address."""
    scheme, host, port = origin_of(url)
    return f"{scheme}://{host if ':' not in host else f'[{host}]'}:{port}"


async def _older(http: httpx2.AsyncClient, url: str) -> dict[str, Any] | None:
    """The authorization server of a server of protocol 2025-03-26, which is one itself: as it describes it, or at the
    addresses which that protocol names. PKCE is demanded of both."""
    base = _base(url)
    found = await _document(http, f"{base}/.well-known/oauth-authorization-server")
    if found is not None and not (found.get("authorization_endpoint") and found.get("token_endpoint")):
        return None
    described = found or {
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "registration_endpoint": f"{base}/register",
        "code_challenge_methods_supported": ["S256"],
    }
    return {"issuer": base, **described}


async def _server(http: httpx2.AsyncClient, issuer: str, alone: bool) -> dict[str, Any] | None:
    """What the authorization server says of itself; with `alone` it need not have a page for users."""
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
        if found is not None and found.get("token_endpoint") and (alone or found.get("authorization_endpoint")):
            if str(found.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
                raise ToolError(f"The authorization server {shown_address(issuer)} names another one as itself.")
            return found
    return None


async def _check_usable(server: dict[str, Any], beside: Kinds, alone: bool) -> None:
    """Raise `ToolError` for an authorization server without PKCE for users, or with an address that is not asked."""
    for name in _ENDPOINTS:
        if server.get(name):
            _check_safe(str(server[name]))
    try:
        await check_target(str(server["token_endpoint"]), allow_private=beside)
    except OSError:
        pass  # it says so when it is asked, perhaps by way of a proxy
    if not alone and "S256" not in (server.get("code_challenge_methods_supported") or ()):
        told = shown_address(str(server["issuer"]))
        raise ToolError(f"The authorization server {told} offers no PKCE with S256: it is not used.")


async def _registered(http: httpx2.AsyncClient, server: dict[str, Any], client: OAuth2Auth | None) -> OAuth2Auth:
    """A client of an authorization server, registered there and then."""
    address = server.get("registration_endpoint")
    if not address:
        raise ToolError("The authorization server registers no clients: give a `client_id` in `auth_credential`.")
    redirect = (None if client is None else client.redirect_uri) or REDIRECT
    methods = _names(server.get(_METHODS)) or ["none"]
    asked = {
        "client_name": "flowloom",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": next((each for each in _PROOFS if each in methods), "none"),
    }
    try:
        answer = await http.post(str(address), json=asked)
        answer.raise_for_status()
        given = cast(dict[str, Any], answer.json())
        return OAuth2Auth(
            client_id=str(given["client_id"]), client_secret=given.get("client_secret"), redirect_uri=redirect
        )
    except AnswerTooLongError as error:
        raise _too_long("The authorization server's answer to the registration of a client", error) from None
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ToolError(f"The authorization server did not register a client ({type(error).__name__}).") from None


def _names(told: Any) -> list[str]:
    """A list of names in a server's description; nothing if it is none."""
    return [str(each) for each in cast("list[Any]", told)] if isinstance(told, list) else []


async def _document(http: httpx2.AsyncClient, address: str) -> dict[str, Any] | None:
    _check_safe(address)
    try:
        answer = await http.get(address)
        found: Any = answer.json() if answer.status_code == 200 else None
    except AnswerTooLongError as error:
        raise _too_long(f"What {shown_address(address)} describes", error) from None
    except (httpx2.HTTPError, ValueError, RecursionError):
        return None
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def _too_long(what: str, error: AnswerTooLongError) -> ToolError:
    return ToolError(f"{what} has {error.told}: it is not read.")


def _check_safe(address: str) -> None:
    """Raise `ToolError` for an address that is not encrypted, unless it is on this machine."""
    scheme, host, _ = origin_of(address)
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if scheme != "https" and not (scheme == "http" and local):
        raise ToolError(f"The address {shown_address(address)} is not safe: it has to begin with https.")
