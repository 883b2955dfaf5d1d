# made from table.py by tests/adk/stubs.py

from flowloom.auth import AuthCredential
from flowloom.auth import AuthCredentialTypes
from flowloom.auth import HttpAuth
from flowloom.auth import HttpCredentials
from flowloom.auth import OAuth2Auth
from flowloom.auth import ServiceAccount

__all__ = [
    "AuthCredential",
    "AuthCredentialTypes",
    "HttpAuth",
    "HttpCredentials",
    "OAuth2Auth",
    "ServiceAccount",
]
