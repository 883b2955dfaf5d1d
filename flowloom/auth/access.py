"""`Access`: how the credential that an `AuthConfig` describes is found, asked for, exchanged and refreshed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from flowloom.auth.config import AuthConfig
from flowloom.auth.consent import consent_request, redeem
from flowloom.auth.credentials import AuthCredential, OAuth2Auth
from flowloom.auth.identity import vouched_tokens
from flowloom.auth.keyring import Given, Keyring
from flowloom.auth.refusal import TokenRefusedError
from flowloom.auth.service import CredentialOwner
from flowloom.errors import CredentialError
from flowloom.objects.event_loop import in_event_loop

EARLY_SECONDS = 30.0
"""A token that expires this soon is refreshed: the call that it is for takes time, too."""
_BUSY = "The user's answer is being exchanged by another call at the moment. Try again."

_process_secret = os.urandom(32)
_Locks = WeakValueDictionary[tuple[object, ...], asyncio.Lock]
_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, _Locks] = WeakKeyDictionary()


class Access:
    """What can be done about the credential that `config` describes."""

    def __init__(self, config: AuthConfig) -> None:
        self._config = config

    async def credential(
        self,
        keyring: Keyring,
        owner: CredentialOwner,
        service: Any,
        call_id: str | None,
        now: Callable[[], float],
        refused: AuthCredential | None = None,
    ) -> AuthCredential | None:
        """The credential for a call: what the user has just given, what is kept, or the tool's own; None to ask.

        Tokens that have expired are refreshed, by one caller for all; so is one that is the same as in `refused`, which
        the service did not take. Raises `CredentialError` if what the user gave is of no use, or the authorization
        server cannot be reached.

        `service` is the run's credential service, or None; `call_id` the id of the tool call that asks, None outside of
        calls; `now` gives the time in seconds since the epoch.
        """
        config = self._config
        given = keyring.given(config.credential_key, call_id)
        raw = config.raw_auth_credential
        if given is None and raw is not None and raw.is_ready and refused is None:
            return raw.model_copy(deep=True)
        async with self._lock(owner, keyring if service is None else service):
            if given is not None and refused is None:
                found = await self._redeemed(given, keyring, owner, service)
            else:
                found = await self._kept(keyring, owner, service, call_id, now, refused)
        return None if found is None else found.model_copy(deep=True)

    def response(self, keyring: Keyring, service: Any, call_id: str | None) -> AuthCredential | None:
        """What the user gave in this run, without awaiting: a code is exchanged while the caller waits.

        `service` is the run's credential service, or None; `call_id` the id of the tool call that asks.

        Raises `CredentialError`, as `credential` does.
        """
        config = self._config
        given = keyring.given(config.credential_key, call_id)
        if given is None:
            found = keyring.credentials.get(config.credential_key)
            return None if found is None else found.model_copy(deep=True)
        if not given.lock.acquire(blocking=not in_event_loop()):  # which the other may need to go on
            raise CredentialError(_BUSY)
        try:
            if given.outcome is None:
                with ThreadPoolExecutor(1) as thread:  # a running event loop cannot be entered a second time
                    thread.submit(asyncio.run, self._redeem(given, service)).result()
                keyring.credentials[config.credential_key] = _raised(given)
                keyring.unsaved.append(config.with_exchanged(_raised(given)))
            return _raised(given).model_copy(deep=True)
        finally:
            given.lock.release()

    def request(self, service: Any, state: str) -> AuthConfig:
        """What the user is to be asked, without secrets (see `consent_request`): of a service that takes the word of an
        identity provider it is to sign in there.

        `service` is the run's credential service, or None; `state` is what the authorization server sends back, by
        which the answer is known.
        """
        return consent_request(self._config.identity_provider or self._config, _secret_of(service), state)

    async def _redeem(self, given: Given, service: Any) -> None:
        if given.outcome is None:
            request = type(self._config).model_validate(given.request)
            try:
                given.outcome = await redeem(self._config, request, given.answer, _secret_of(service))
            except CredentialError as error:
                given.outcome = error

    async def _redeemed(self, given: Given, keyring: Keyring, owner: CredentialOwner, service: Any) -> AuthCredential:
        if not given.lock.acquire(blocking=False):
            raise CredentialError(_BUSY)
        try:
            fresh = given.outcome is None
            await self._redeem(given, service)
        finally:
            given.lock.release()
        outcome = _raised(given)
        if fresh:
            await self._keep(outcome, keyring, owner, service)
        return outcome

    async def _kept(
        self,
        keyring: Keyring,
        owner: CredentialOwner,
        service: Any,
        call_id: str | None,
        now: Callable[[], float],
        refused: AuthCredential | None,
    ) -> AuthCredential | None:
        found = await self._load(keyring, owner, service) or refused  # which a tool may have of itself
        if found is not None and not _expired(found, now(), refused):
            return found
        scheme, client = self._config.auth_scheme, self._config.client
        if not scheme.is_oauth:
            return None
        exchange = self._config.exchange
        endpoints = await exchange.endpoints(scheme)  # a request needs them, too
        tokens: OAuth2Auth | None = None
        if found is not None and found.oauth2 is not None and found.oauth2.refresh_token:
            try:
                tokens = await exchange.refreshed(endpoints, client or found.oauth2, found.oauth2)
            except TokenRefusedError:
                latest = await self._load(keyring, owner, service)
                if latest is not None and not _expired(
                    latest, now(), refused
                ):  # another process has refreshed it meanwhile
                    return latest
        provider = self._config.identity_provider
        if tokens is None and provider is not None:

            async def sign_in(refused: AuthCredential | None) -> AuthCredential | None:
                return await Access(provider).credential(keyring, owner, service, call_id, now, refused)

            fresh_answer = keyring.given(provider.credential_key, call_id) is not None
            tokens = await vouched_tokens(self._config, provider, endpoints, sign_in, may_ask=not fresh_answer)
        elif tokens is None and scheme.needs_no_user and client is not None:
            tokens = await exchange.own(endpoints, client)
        if tokens is None:
            return None
        raw = self._config.raw_auth_credential
        fresh = AuthCredential.model_validate({"authType": scheme.type_ if raw is None else raw.auth_type})
        fresh.oauth2 = tokens
        await self._keep(fresh, keyring, owner, service)
        return fresh

    async def _load(self, keyring: Keyring, owner: CredentialOwner, service: Any) -> AuthCredential | None:
        stored = None if service is None else await service.load_credential(self._config, owner)
        return keyring.credentials.get(self._config.credential_key) if stored is None else stored

    async def _keep(self, credential: AuthCredential, keyring: Keyring, owner: CredentialOwner, service: Any) -> None:
        keyring.credentials[self._config.credential_key] = credential
        if service is not None:
            await service.save_credential(self._config.with_exchanged(credential), owner)

    def _lock(self, owner: CredentialOwner, keeper: object) -> asyncio.Lock:
        """One for each credential and event loop, for all runs."""
        locks = _locks.setdefault(asyncio.get_running_loop(), _Locks())
        session = owner.session
        place = (id(keeper), session.app_name, session.user_id, self._config.credential_key)
        lock = locks.get(place)
        if lock is None:
            lock = locks[place] = asyncio.Lock()
        return lock


def _secret_of(service: Any) -> bytes:
    """What verifiers are derived from; this process's own where the service has nothing of the kind."""
    secret: Any = getattr(service, "request_secret", None)
    return secret if isinstance(secret, bytes) else _process_secret


def _raised(given: Given) -> AuthCredential:
    """What an answer came to, if it is a credential."""
    if isinstance(given.outcome, AuthCredential):
        return given.outcome
    raise CredentialError(str(given.outcome))


def _expired(credential: AuthCredential, now: float, refused: AuthCredential | None) -> bool:
    if refused is not None and _token(credential) == _token(refused):
        return True
    at = credential.oauth2.expires_at if credential.oauth2 is not None else None
    return at is not None and at - EARLY_SECONDS <= now


def _token(credential: AuthCredential) -> str | None:
    return credential.oauth2.access_token if credential.oauth2 is not None else None
