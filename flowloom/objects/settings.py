"""`Settings`: the models whose constructors users call, checked when they are made, known to type checkers and editors.

pydantic tells type checkers which fields a model takes, unless the class has an `__init__` that they see. What a class
does besides when it is made therefore stands in `_when_made`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import SchemaValidator, core_schema

from flowloom.errors import ConfigurationError, bad_fields


class _Signature:
    """The signature that `inspect` and editors are shown: pydantic makes it with the schema, when it is asked for."""

    def __get__(self, instance: object, owner: Any) -> Any:
        if instance is not None or "__signature__" not in vars(owner):
            raise AttributeError("__signature__")
        del owner.__signature__
        owner.model_rebuild(force=True, raise_errors=False)
        made: Signature = owner.__signature__
        fields = [each for each in made.parameters.values() if each.kind is not Parameter.VAR_POSITIONAL]
        owner.__signature__ = made.replace(parameters=fields)
        return owner.__signature__


class Settings(BaseModel):
    """Values that users put together. Raises `ConfigurationError` for a field that is not there, or does not fit."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", protected_namespaces=(), defer_build=True)

    if not TYPE_CHECKING:

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            cls.__signature__ = _Signature()

        def __init__(self, *given: Any, **fields: Any) -> None:
            if given:  # Python would speak of this class, and not of the one that was called
                name, first = type(self).__name__, next(iter(type(self).model_fields))
                raise TypeError(f"{name} takes its fields by name only, as `{name}({first}={given[0]!r:.80})`.")
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise bad_fields(type(self), fields, error) from error
            self._when_made()

    def _when_made(self) -> None:
        """What a class does, and checks, when the fields are set."""


def check_kinds(**given: tuple[object, type]) -> None:
    """Raise `ConfigurationError`, which names the argument, for a value that is there and is not of its kind."""
    for name, (value, kind) in given.items():
        if value is not None and not isinstance(value, kind):
            what = f"the class `{value.__name__}`" if isinstance(value, type) else f"a `{type(value).__name__}`"
            raise ConfigurationError(f"`{name}` takes a `{kind.__name__}`, not {what}.")


def nothing() -> list[Any]:
    """The factory of lists that are empty by default: pydantic parses the signature of `list` itself, for 1 ms."""
    return []


class ReadBy:
    """Marks the type of a field whose values a function reads; without one they are taken as they are.

    The schema of the type itself is not built: that of Google's types takes 20 ms.
    """

    __slots__ = ("read",)

    def __init__(self, read: Callable[[Any], Any] | None = None) -> None:
        self.read = read

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        if self.read is None:
            return core_schema.any_schema()
        return core_schema.no_info_plain_validator_function(self.read)


def class_on_use(module: str, name: str) -> Any:
    """The type, at run time, of a field whose class is loaded with the first value: what few set costs the others
    nothing. Values are read as those of the class itself would be.
    """

    def read(value: Any) -> Any:
        kind: type = getattr(import_module(module), name)
        if isinstance(value, kind):
            return value
        if issubclass(kind, BaseModel):
            return kind.model_validate(value)
        return SchemaValidator(core_schema.is_instance_schema(kind)).validate_python(value)

    return Annotated[Any, ReadBy(read)]
