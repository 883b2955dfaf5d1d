"""What all wire types share: ADK's JSON form, kept unknown fields, and construction without validation.

JSON is camelCase, without nulls, bytes in base64 (spec §0). A field that this release does not know, at any
depth, survives a round trip: on the model itself as an extra attribute, below it (the google-genai types
refuse what they do not know) in a stash that the serializer puts back in its place.

What reaches past pydantic into a model stands here alone, as `replace` and `make`, and beside them: `fields_of` and
`set_fields` for loops that read and write what they hold, `assemble` for the readers of stored events.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any, Self, TypeVar, cast, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel

ModelT = TypeVar("ModelT", bound=BaseModel)
_STASH = "__unknown_below__"
# The slots of every pydantic model, written directly: `object.__setattr__` looks each of them up again.
_new: Any = object.__new__
fields_slot: Any = vars(BaseModel)["__dict__"]
stored_fields: Callable[[BaseModel], dict[str, Any]] = fields_slot.__get__
"""Where a model keeps its field values, and the dict that it does keep there: for `LlmRequest`, which reads some later,
and to write single fields of a model that is the caller's own in every step (`set_fields` costs four times as much)."""
_put_fields: Any = fields_slot.__set__
set_given: Callable[[BaseModel, set[str]], None] = vars(BaseModel)["__pydantic_fields_set__"].__set__
"""Say which fields of a model were given."""
set_extra: Callable[[BaseModel, dict[str, Any] | None], None] = vars(BaseModel)["__pydantic_extra__"].__set__
"""Replace what a model has beside its fields."""
set_private: Callable[[BaseModel, dict[str, Any] | None], None] = vars(BaseModel)["__pydantic_private__"].__set__
"""Replace the private attributes of a model, which its copies share."""
fields_of: Callable[[BaseModel], Mapping[str, Any]] = attrgetter("__dict__")
"""The field values of a model, to be read: at half of what the attributes of a pydantic model cost."""
_held: Any = attrgetter("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


def replace(model: ModelT, /, **fields: Any) -> ModelT:
    """A copy of `model` with other values in some fields, which are not validated; a tenth of what `model_copy` costs.

    The other values are shared. So is the set of given fields: it only grows, and only dumps without unset fields look
    at it.
    """
    values, given, extra, private = _held(model)
    new: ModelT = _new(type(model))
    _put_fields(new, values | fields)
    set_given(new, given)
    set_extra(new, extra.copy() if extra is not None else None)
    set_private(new, private)
    return new


def copier(template: ModelT) -> Callable[..., ModelT]:
    """What makes copies of one model, which never changes, with other values in some fields; at four fifths of what
    `replace` costs. `template` has no other values than those of its fields."""
    cls, values, given = type(template), template.__dict__, template.__pydantic_fields_set__

    def copy_with(**fields: Any) -> ModelT:
        new: ModelT = _new(cls)
        _put_fields(new, values | fields)
        set_given(new, given)
        set_extra(new, None)
        set_private(new, None)
        return new

    return copy_with


@overload
def make(cls: type[ModelT], given: dict[str, Any], /) -> ModelT: ...
@overload
def make(cls: type[ModelT], /, **fields: Any) -> ModelT: ...
def make(cls: type[ModelT], given: dict[str, Any] | None = None, /, **fields: Any) -> ModelT:
    """An instance from field values that are known to be of the right types, in about 1 µs.

    They are given as keywords, or in a dict; the other fields have their defaults.
    """
    known = _known(cls)
    values = known.defaults | (fields if given is None else given)
    if len(values) < known.size:
        for name, factory in known.factories:
            if name not in values:
                values[name] = factory()
    new: ModelT = _new(cls)
    _put_fields(new, values)
    set_given(new, known.given)
    set_extra(new, {} if known.keeps_extra else None)
    set_private(new, known.private and known.private())
    return new


def set_fields(model: BaseModel, /, **fields: Any) -> None:
    """Write to a model that is the caller's own, without validation, at a tenth of what assignments cost."""
    stored_fields(model).update(fields)


def assemble(
    cls: type[ModelT], fields: dict[str, Any], given: set[str], extra: Any = None, private: Any = None
) -> ModelT:
    """An instance of which `fields`, all of them, are the values: for what reads many of one form, which it knows."""
    new: ModelT = _new(cls)
    _put_fields(new, fields)
    set_given(new, given)
    set_extra(new, extra)
    set_private(new, private)
    return new


def fill(model: BaseModel, fields: dict[str, Any], given: set[str]) -> None:
    """Make `fields`, all of them, the values of an instance that has none yet; those that were `given` fit."""
    _put_fields(model, fields)
    set_given(model, given)
    set_extra(model, {})
    set_private(model, None)


def private_of(cls: type[BaseModel]) -> Callable[[], dict[str, Any]] | None:
    """What gives each new instance of a class its private attributes; None if it has none."""
    attributes = cls.__private_attributes__
    if any(attribute.default_factory for attribute in attributes.values()):
        return lambda: {name: each.get_default(call_default_factory=True) for name, each in attributes.items()}
    return {name: attribute.get_default() for name, attribute in attributes.items()}.copy if attributes else None


def share_keys(model: ModelT) -> ModelT:
    """A `model` with its values in a dict whose copies share its keys, and take half the memory of others. That holds
    for a dozen fields or two: copies of few take more so, and with more than thirty nothing is shared."""
    new = _new(type(model))
    for name, value in model.__dict__.items():
        object.__setattr__(new, name, value)
    _put_fields(model, new.__dict__)
    return model


@dataclass(slots=True, eq=False, repr=False)
class _Known:
    """How a class is made from values that need no validation."""

    defaults: dict[str, Any]
    factories: list[tuple[str, Callable[[], Any]]]
    size: int
    """How many fields it has."""
    given: set[str]
    """All field names of a type that travels: such an instance counts as given in full. None of others."""
    keeps_extra: bool
    private: Callable[[], dict[str, Any]] | None


@cache
def _known(cls: type[BaseModel]) -> _Known:
    """What is known of a class: found out when it is made first."""
    plain: dict[str, Any] = {}
    factories: list[tuple[str, Callable[[], Any]]] = []
    for name, field in cls.model_fields.items():
        if field.default_factory is not None:
            factory: Any = field.default_factory
            if factory is field.annotation and issubclass(factory, WireModel):
                factory = partial(make, factory)
            factories.append((name, factory))
        else:
            plain[name] = None if field.is_required() else field.default
    given = set(cls.model_fields) if issubclass(cls, WireModel) else set[str]()
    keeps_extra = cls.model_config.get("extra") == "allow"
    return _Known(plain, factories, len(cls.model_fields), given, keeps_extra, private_of(cls))


class WireModel(BaseModel):
    """Base of the types that travel: events, responses, actions, sessions."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        from_attributes=True,
        extra="allow",
        arbitrary_types_allowed=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        protected_namespaces=(),
        defer_build=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """The JSON form as plain data. A value that JSON cannot hold is given by its `repr`."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, fallback=repr)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_unknown(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            if not isinstance(data, Mapping) or any(p["type"] != "extra_forbidden" for p in problems):
                raise
            known = copy.deepcopy(dict(cast(Mapping[str, Any], data)))
            below: dict[tuple[str | int, ...], Any] = {}
            for problem in problems:
                way = _way_to(known, problem["loc"])
                if len(way) < len(problem["loc"]):
                    raise
                parent, key = way[-1]
                below[tuple(step for _, step in way)] = parent.pop(key)
        return keep_below(handler(known), below)

    @model_serializer(mode="wrap")
    def _restore_unknown(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data = cast(dict[str, Any], handler(self))
        data.pop(_STASH, None)
        below: dict[tuple[str | int, ...], Any] = (self.__pydantic_extra__ or {}).get(_STASH, {})
        for (*above, name), value in below.items():
            way = _way_to(data, above)
            if len(way) == len(above):
                parent, key = way[-1]
                if isinstance(parent[key], dict):  # a copy of the model may hold something else
                    parent[key][name] = value
        return data


def keep_below(model: ModelT, below: dict[tuple[str | int, ...], Any]) -> ModelT:
    """The model, which keeps what the types below it do not know: by where that was in its JSON."""
    if below and model.__pydantic_extra__ is not None:
        model.__pydantic_extra__[_STASH] = below
    return model


def _way_to(data: Any, location: Sequence[str | int]) -> list[tuple[Any, str | int]]:
    """The lists and objects that lead to `location`, each with the index or key in it, as far as it is there.

    Validation locations are in camelCase; the data may be in either case.
    """
    way: list[tuple[Any, str | int]] = []
    for step in location:
        key = _key_in(data, step)
        if key is None:
            break
        way.append((data, key))
        data = data[key]
    return way


def _key_in(node: Any, step: str | int) -> str | int | None:
    """The index of a list, or the key of a JSON object that is `step` in whatever case; None if there is none."""
    if isinstance(node, list):
        return step if isinstance(step, int) and step < len(cast(list[Any], node)) else None
    if not isinstance(node, dict) or not isinstance(step, str):
        return None
    entries = cast(dict[str, Any], node)
    if step in entries:
        return step
    folded = folded_name(step)
    return next((key for key in entries if folded_name(key) == folded), None)


def folded_name(name: str) -> str:
    """The name of a field as it is in every case: camelCase, snake_case, and Go's."""
    return name.replace("_", "").lower()
