"""`AuthModel`: the base of what describes and holds credentials, whose texts never show a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import ConfigDict

from flowloom.events.wire import WireModel

HIDDEN = "**********"


class AuthModel(WireModel):
    """A wire type whose `repr` hides the fields named in `secrets`, and all fields that this release does not know.

    Its JSON form is complete: a credential service writes it. Validation errors do not quote what was given.
    """

    model_config = ConfigDict(hide_input_in_errors=True)
    secrets: ClassVar[frozenset[str]] = frozenset()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        extra = self.__pydantic_extra__ or {}
        for name, value in super().__repr_args__():
            if value is not None:
                yield name, HIDDEN if name in self.secrets or name in extra else value

    __str__ = WireModel.__repr__
