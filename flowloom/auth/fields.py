"""`AuthModel`: the base of what describes and holds credentials, whose texts never show a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import ConfigDict

from flowloom.events.wire import WireModel

HIDDEN = "**********"
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
