"""`TokenRefusedError`: a server's no."""

from __future__ import annotations

from flowloom.errors import CredentialError


class TokenRefusedError(CredentialError):
    """The authorization server was asked, and gave no token."""
