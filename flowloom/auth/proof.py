"""How a client proves itself to an authorization server: by its secret, or by the signature of its key."""

from __future__ import annotations

from collections.abc import Collection

from flowloom.auth.credentials import OAuth2Auth, ProofMethod
from flowloom.errors import ConfigurationError

SIGNED: tuple[ProofMethod, ...] = ("private_key_jwt", "client_secret_jwt")
"""The client sends no secret: it signs what it says (RFC 7523)."""


def proof_of(client: OAuth2Auth, taken: Collection[str] = ()) -> ProofMethod | None:
    """How `client` proves itself: as the program says, or else as the server takes it, of which `taken` tells if it is
    known; None for a public client.

    Raises `ConfigurationError` if the client has nothing to prove itself by in the way that was told or is taken.
    """
    told: ProofMethod | None = None
    if "token_endpoint_auth_method" in client.model_fields_set:
        told = client.token_endpoint_auth_method
    if told == "private_key_jwt" and not client.private_key:
        raise ConfigurationError("The method `private_key_jwt` needs the client's `private_key`.")
    if told == "client_secret_jwt" and not client.client_secret:
        raise ConfigurationError("The method `client_secret_jwt` needs the client's `client_secret`.")
    able = _able(client)
    if told is not None:
        return told if able else None
    fitting: list[ProofMethod] = [each for each in able if each in taken]
    if fitting or not able:
        return fitting[0] if fitting else None
    if able == ["private_key_jwt"] and taken:
        raise ConfigurationError(
            f"The authorization server takes {', '.join(f'`{each}`' for each in taken)} of its clients, and no "
            f"`private_key_jwt`: give the client's `client_secret`, or register its key there."
        )
    return able[0]


def _able(client: OAuth2Auth) -> list[ProofMethod]:
    """What the client has something for, the best first."""
    by_secret: list[ProofMethod] = ["client_secret_basic", "client_secret_post", "client_secret_jwt"]
    by_key: list[ProofMethod] = ["private_key_jwt"]
    return [*(by_key if client.private_key else ()), *(by_secret if client.client_secret else ())]
