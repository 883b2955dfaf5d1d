"""`AuthModel`: the base of what describes and holds credentials, whose texts never show a secret; and how what was sent
to show who asks is taken out of what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from pydantic import ConfigDict

from flowloom.events.wire import WireModel

HIDDEN = "**********"
"""What stands in the place of a secret."""
SHORTEST = 4
"""How many characters a secret has at least that is taken out: a shorter text is in any other."""
SHORTEST_GUESSED = 8
"""The same of what is perhaps a secret: a variable, an unusual header."""
_SECRET_FIELDS = frozenset(
    "apikey password token additionalheaders clientsecret authresponseuri authcode accesstoken refreshtoken idtoken "
    "codeverifier serviceaccountcredential privatekey privatekeyid secret".split()
)
"""The plain names of fields that hold secrets."""


def plain_name(name: str) -> str:
    """The name of a field or header without what its spellings differ in: `api_key`, `apiKey`, `API-Key`."""
    return name.replace("-", "").replace("_", "").lower()


def is_secret_field(name: str) -> bool:
    """Whether a field of that name, in any spelling, holds a secret of a credential."""
    return plain_name(name) in _SECRET_FIELDS


class AuthModel(WireModel):
    """A wire type whose `repr` hides the fields that hold secrets, and all fields that this release does not know.

    `secrets` names the former. Its JSON form is complete: a credential service writes it. Validation errors do not
    quote what was given.
    """

    model_config = ConfigDict(hide_input_in_errors=True)
    secrets: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.secrets = frozenset(filter(is_secret_field, cls.model_fields))

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        extra = self.__pydantic_extra__ or {}
        for name, value in super().__repr_args__():
            if value is not None:
                yield name, HIDDEN if name in self.secrets or name in extra else value

    __str__ = WireModel.__repr__


def secrets_in(values: Iterable[str], shortest: int = SHORTEST) -> list[str]:
    """Those of `values` with as many characters as `shortest`, and each without the scheme that it begins with; the
    longest first."""
    words = {word for value in values for word in (value, value.partition(" ")[2]) if len(word) >= shortest}
    return sorted(words, key=len, reverse=True)


def without(text: str, secrets: Iterable[str]) -> str:
    """The text without `secrets`, as `secrets_in` gives them."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
