"""Who asks: the `auth=` hook of all that serves HTTP, and what it answers (server spec §8)."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from flowloom.asgi.protocol import header_of
from flowloom.errors import ConfigurationError, FlowloomError


class RefusedError(FlowloomError):
    """A request is refused, with the HTTP `status` 401 (it names no principal) or 403 (the
    principal may not)."""

    def __init__(self, message: str, *, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, by `name`, and what is theirs: the `user_ids` they may act for, and the `apps` they may use; None for
    all, a text for one."""

    name: str = ""
    user_ids: Collection[str] | None = None
    apps: Collection[str] | None = None

    def __post_init__(self) -> None:
        for name, given in (("user_ids", self.user_ids), ("apps", self.apps)):
            if given is not None:
                object.__setattr__(self, name, frozenset({given} if isinstance(given, str) else given))

    @property
    def user_id(self) -> str:
        """The user whose sessions are meant where a request names none: the only one of theirs, else who asks."""
        if self.user_ids is not None and len(self.user_ids) == 1:
            return next(iter(self.user_ids))
        return self.name

    def may_use(self, app_name: str | None, user_id: str | None = None) -> bool:
        """Whether `app_name`, and in it what belongs to `user_id`, is theirs; None asks for neither."""
        if app_name is not None and self.apps is not None and app_name not in self.apps:
            return False
        return user_id is None or self.user_ids is None or user_id in self.user_ids


EVERYBODY = Principal()
"""Who asks where no `auth` is set: all is theirs."""
Auth = Callable[[Mapping[str, Any]], Awaitable[Principal | None]]
"""Answers who makes the request of an ASGI scope; None where it names no principal, which is refused with 401. May
raise `RefusedError`."""


def token_auth(token: str) -> Auth:
    """One bearer `token`, compared in constant time, for which all is open. Raises `ConfigurationError` for an empty
    one, and for one that no header carries as it is."""
    if not token:
        raise ConfigurationError("The token is empty. Give one that cannot be guessed, or none.")
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ConfigurationError(
            "The token has characters that no header carries as they are. Take letters, digits and signs of ASCII, "
            "without a space or a line's end at either end."
        )
    wanted = token.encode()

    async def auth(scope: Mapping[str, Any]) -> Principal | None:
        for value in header_of(scope, "authorization"):
            kind, _, given = value.partition(" ")
            if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), wanted):
                return EVERYBODY
        return None

    return auth
