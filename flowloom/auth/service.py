"""Credential services: where the credentials of users are kept."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from flowloom.objects.service import Service

if TYPE_CHECKING:
    from flowloom.auth.config import AuthConfig
    from flowloom.auth.credentials import AuthCredential


class _Names(Protocol):
    app_name: str
    user_id: str


class CredentialOwner(Protocol):
    """Whose credential it is: a context, as far as a credential service needs it."""

    @property
    def session(self) -> Any: ...


class BaseCredentialService(Service, ABC):
    """Keeps the credentials of users, by app, user and `AuthConfig.credential_key`.

    `auth_config` says which credential is meant, `callback_context` whose: any context of a run will do.
    What it stores is as good as a password: encrypt it, and let nobody else read it.
    """

    _secret: bytes | None = None

    @property
    def request_secret(self) -> bytes:
        """What the PKCE verifiers of open requests are derived from, so that they are stored nowhere.

        By default random: a request of a public client that is answered by another process is asked again. A service
        that several processes share gives all of them the same 32 bytes.
        """
        if self._secret is None:
            self._secret = os.urandom(32)
        return self._secret

    @abstractmethod
    async def load_credential(
        self, auth_config: AuthConfig, callback_context: CredentialOwner
    ) -> AuthCredential | None:
        """The credential of the context's app and user under the config's key; None if there is none."""

    @abstractmethod
    async def save_credential(self, auth_config: AuthConfig, callback_context: CredentialOwner) -> None:
        """Keep the config's `exchanged_auth_credential`; None forgets the one that is there."""


class InMemoryCredentialService(BaseCredentialService):
    """Keeps credentials for as long as the process lives."""

    def __init__(self) -> None:
        self._credentials: dict[tuple[str, str, str], AuthCredential] = {}

    async def load_credential(
        self, auth_config: AuthConfig, callback_context: CredentialOwner
    ) -> AuthCredential | None:
        """A copy of the credential; None if there is none."""
        found = self._credentials.get(_place(auth_config, callback_context))
        return None if found is None else found.model_copy(deep=True)

    async def save_credential(self, auth_config: AuthConfig, callback_context: CredentialOwner) -> None:
        """Keep a copy of the credential, or forget it."""
        place, credential = _place(auth_config, callback_context), auth_config.exchanged_auth_credential
        if credential is None:
            self._credentials.pop(place, None)
        else:
            self._credentials[place] = credential.model_copy(deep=True)


def _place(config: AuthConfig, context: CredentialOwner) -> tuple[str, str, str]:
    session: _Names = context.session
    return session.app_name, session.user_id, config.credential_key
