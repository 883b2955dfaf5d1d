"""What a client signs to prove itself to an authorization server (RFC 7521, RFC 7523). Needs the extra `auth`."""

from __future__ import annotations

import json
from typing import Any

from flowloom.auth.credentials import OAuth2Auth
from flowloom.auth.proof import SIGNED
from flowloom.errors import ConfigurationError
from flowloom.events.clock import now
from flowloom.events.ids import new_id
from flowloom.extras import missing_extra

try:
    from joserfc import jwk, jwt
except ImportError as error:
    raise missing_extra("Clients that sign what they say need joserfc", "auth", error) from error

_jwk: Any = jwk
ASSERTION_SECONDS = 300
"""For how long what was signed can be used."""
_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA", "Ed25519"),
    "oct": ("HS256", "HS384", "HS512"),
}
"""What a key signs with, by its curve or kind; the first if nothing is said."""


def client_assertion(client: OAuth2Auth, method: str | None, audience: str) -> dict[str, str]:
    """The fields of a token request by which `client` proves itself to the server `audience` with the `method`: none
    if it signs nothing.

    Raises `ConfigurationError` for a key that cannot sign, or not with the algorithm that is asked for.
    """
    if method not in SIGNED:
        return {}
    if not client.client_id:
        raise ConfigurationError(f"The method `{method}` needs the client's `client_id`.")
    key = _signing_key(client) if method == "private_key_jwt" else _jwk.OctKey.import_key(client.client_secret)
    known = _ALGORITHMS.get(getattr(key, "curve_name", key.key_type), ())
    algorithm = client.signing_algorithm or next(iter(known), "")
    if algorithm not in known:
        told = ", ".join(known) or "nothing that authorization servers take"
        raise ConfigurationError(f"`signing_algorithm` is `{algorithm}`, but the client's key signs with {told}.")
    at, kid = int(now()), client.key_id or key.kid
    header = {"alg": algorithm, **({"kid": kid} if kid else {})}
    claims = {"iss": client.client_id, "sub": client.client_id, "aud": audience, "jti": new_id()}
    signed = jwt.encode(header, claims | {"iat": at, "exp": at + ASSERTION_SECONDS}, key, algorithms=[algorithm])
    return {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": signed,
    }


def _signing_key(client: OAuth2Auth) -> Any:
    """The client's key. It is never shown, and neither is what those say who cannot read it."""
    given = (client.private_key or "").strip()
    for kind in ("RSA", "EC", "OKP"):
        try:
            key = _jwk.import_key(json.loads(given) if given.startswith("{") else given, kind)
            if key.is_private:
                return key
        except Exception:
            continue
    raise ConfigurationError(
        "The client's `private_key` cannot be read: give an RSA, EC or Ed25519 key as PEM text without a password, or "
        "as the JSON text of a JSON Web Key."
    ) from None
