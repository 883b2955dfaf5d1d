"""What was sent to a service to show who asks, taken out of what the service says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flowloom.auth.fields import HIDDEN

SHORTEST = 4
"""How long a text is at least that is taken out: a shorter one is in any text."""


def secrets_in(headers: Mapping[str, str]) -> list[str]:
    """The values of `headers`, and those without the scheme that they begin with; the longest first."""
    words = {word for value in headers.values() for word in (value, value.partition(" ")[2])}
    return sorted(words, key=len, reverse=True)


def without(text: str, secrets: Iterable[str]) -> str:
    """The text without `secrets`."""
    for secret in secrets:
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return text
