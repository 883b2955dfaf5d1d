"""Credentials that tools need: what they are, how users are asked for them, and where they are kept.

Secrets live in the credential service and in the memory of a run. What is stored, shown or logged holds none. The
models are loaded when they are used: a run without credentials does not pay for them.

It imports `events` and the rooms below. Begin with `config.py` and `credentials.py`; `exchange.py` gets tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.auth.answers import AuthAnswer, redact_message
from flowloom.auth.keyring import Keyring
from flowloom.events.requests import CREDENTIAL_CALL
from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.auth.access import Access
    from flowloom.auth.config import AuthConfig
    from flowloom.auth.credentials import (
        AuthCredential,
        AuthCredentialTypes,
        HttpAuth,
        HttpCredentials,
        OAuth2Auth,
        ServiceAccount,
    )
    from flowloom.auth.schemes import AuthScheme, OAuthFlow, OAuthFlows
    from flowloom.auth.service import BaseCredentialService, InMemoryCredentialService

_HOMES = {
    "access": "Access",
    "config": "AuthConfig",
    "credentials": "AuthCredential AuthCredentialTypes HttpAuth HttpCredentials OAuth2Auth ServiceAccount",
    "schemes": "AuthScheme OAuthFlow OAuthFlows",
    "service": "BaseCredentialService InMemoryCredentialService",
}

__all__ = [
    "CREDENTIAL_CALL",
    "Access",
    "AuthAnswer",
    "AuthConfig",
    "AuthCredential",
    "AuthCredentialTypes",
    "AuthScheme",
    "BaseCredentialService",
    "HttpAuth",
    "HttpCredentials",
    "InMemoryCredentialService",
    "Keyring",
    "OAuth2Auth",
    "OAuthFlow",
    "OAuthFlows",
    "ServiceAccount",
    "redact_message",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
