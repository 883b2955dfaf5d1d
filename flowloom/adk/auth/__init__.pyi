# made from table.py by tests/adk/stubs.py

from flowloom.auth import AuthConfig
from flowloom.auth import AuthCredential
from flowloom.auth import AuthCredentialTypes
from flowloom.auth import OAuth2Auth

__all__ = [
    "AuthConfig",
    "AuthCredential",
    "AuthCredentialTypes",
    "OAuth2Auth",
]
