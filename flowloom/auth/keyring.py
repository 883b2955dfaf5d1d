"""`Keyring`: what one run knows of credentials, in memory only."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.auth.answers import AuthAnswer, credential_requests, redact_message
from flowloom.errors import AlreadyAnsweredError
from flowloom.events.event import Event

if TYPE_CHECKING:
    from flowloom.auth.config import AuthConfig
    from flowloom.auth.credentials import AuthCredential
    from flowloom.auth.service import CredentialOwner
    from flowloom.errors import CredentialError


class Given:
    """A user's answer to one request; it is redeemed once, for all calls that waited for it."""

    def __init__(self, request: Mapping[str, Any], answer: AuthAnswer) -> None:
        self.request = request
        """What the user was asked: an `AuthConfig` as JSON data."""
        self.answer = answer
        self.lock = threading.Lock()
        self.outcome: AuthCredential | CredentialError | None = None


class Keyring:
    """The answers that the user's message gave to requests for a credential, and the credentials that came of them.

    A run has one, which the agents that run as tools in it share. Nothing of it is stored or shown.
    """

    __slots__ = ("_answers", "_given", "credentials", "unsaved")

    def __init__(self) -> None:
        self._answers: dict[str, AuthAnswer] = {}
        self._given: dict[tuple[str, str], Given] = {}
        self.credentials: dict[str, AuthCredential] = {}
        """The credentials of this run, by credential key."""
        self.unsaved: list[AuthConfig] = []
        """What was exchanged while nothing could await it."""

    def __repr__(self) -> str:
        return f"<Keyring: {len(self._answers)} answers, {len(self.credentials)} credentials>"

    def receive(self, message: types.Content, events: Sequence[Event]) -> types.Content:
        """The user's `message` as it may be stored behind the log `events`; the credentials in it are kept here."""
        message, answers = redact_message(message, credential_requests(events, message))
        self.hold(answers)
        return message

    def hold(self, answers: Iterable[AuthAnswer]) -> None:
        """Keep the `answers` that `redact_message` took out of the user's message, until the agent takes them. Raises
        `AlreadyAnsweredError` for two that answer one request, and not the same.
        """
        held: dict[str, AuthAnswer] = {}
        for answer in answers:
            if held.setdefault(answer.request_id, answer).response != answer.response:
                raise AlreadyAnsweredError(
                    f"The message answers the request `{answer.request_id}` for a credential twice, and not the same. "
                    f"Give one answer: nothing of the message was stored.",
                    call_id=answer.request_id,
                )
        self._answers |= held

    def take(self, request_id: str) -> AuthAnswer | None:
        """The answer to the request `request_id`; a second time there is none."""
        return self._answers.pop(request_id, None)

    def give(self, request: Mapping[str, Any], answer: AuthAnswer, call_ids: Iterable[str]) -> None:
        """Let the calls with `call_ids` have the `answer` to a `request` (its stored arguments) that they wait for."""
        given = Given(request, answer)
        for call_id in call_ids:
            self._given[request["credentialKey"], call_id] = given

    def given(self, credential_key: str, call_id: str | None) -> Given | None:
        """The answer that the call `call_id` has waited for, to a request for the credential of `credential_key`; or
        None.
        """
        return self._given.get((credential_key, call_id or ""))

    async def save_new(self, owner: CredentialOwner, service: Any) -> None:
        """Save in `service`, if there is one, what was exchanged while nothing could await it."""
        while self.unsaved:
            config = self.unsaved.pop()
            if service is not None:
                await service.save_credential(config, owner)
