"""`TokenRefusedError`: a server's no."""

from __future__ import annotations

from flowloom.errors import CredentialError


class TokenRefusedError(CredentialError):
    """The authorization server was asked, and gave no token; `code` is the error code that it told, or None."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code
