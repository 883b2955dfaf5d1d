"""A page that a server sends a person to: asked for like any credential, shown, never fetched here."""

from __future__ import annotations

import hashlib

from flowloom.auth import AuthConfig, AuthCredential, AuthCredentialTypes, AuthScheme, OAuth2Auth, OAuthFlow, OAuthFlows
from flowloom.errors import ToolError
from flowloom.protocols.addresses import origin_of
from flowloom.protocols.mcp.asked import PAGE


def link_config(url: str, what: str) -> AuthConfig:
    """The request that shows `url`; `what` tells it from others. Raises `ToolError` for what is no web address."""
    if origin_of(url)[0] not in ("http", "https"):
        raise ToolError("The server wants a person to visit an address that is none of the web; it is not shown.")
    told = hashlib.sha256(what.encode()).hexdigest()[:16]
    return AuthConfig(
        auth_scheme=AuthScheme(
            type="oauth2", flows=OAuthFlows(authorization_code=OAuthFlow(authorization_url=url, token_url=url))
        ),
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth(client_id="mcp", auth_uri=url)
        ),
        credential_key=f"{PAGE}{told}",
    )
