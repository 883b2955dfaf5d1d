"""Requests as trees of plain values, in which each part has a path; and trees as requests again.

A tree is made of `Fields` (the set fields of an object), lists, dicts and values. Nothing of the request is shared, so
a tree stays what it was while the request goes on to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel

from flowloom.events.wire import fields_of as stored
from flowloom.events.wire import replace
from flowloom.models.contents import SharedContents, only_read
from flowloom.models.request import EMPTY_CONFIG, LlmRequest

SEPARATOR = "\n\n"
"""What stands between two blocks of a system instruction."""


class Fields(dict[str, Any]):
    """The fields of an object that are set, by name, and the object's class."""

    __slots__ = ("cls",)

    def __init__(self, cls: type[BaseModel], values: dict[str, Any]) -> None:
        super().__init__(values)
        self.cls = cls

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self.cls is other.cls and super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


class Blocks(list[str]):
    """A system instruction of plain text as the pieces that it was put together from."""

    def __str__(self) -> str:
        return SEPARATOR.join(self)


Known = dict[int, tuple[types.Content, "Fields"]]
"""Entries of the history with their trees, by the id of the entry."""


def tree_of(request: LlmRequest, blocks: Sequence[str] = (), known: Known | None = None) -> Fields:
    """A request as a tree. `blocks` are those of its system instruction as it was before.

    With `known`, entries that still belong to the session's history are looked at once.
    """
    values = _set_fields(request)
    contents = request.contents
    if isinstance(contents, SharedContents) and known is not None:
        values["contents"] = [
            _value(content) if contents.is_private(content) else _known_tree(content, known)
            for content in contents.plain()
        ]
    else:
        values["contents"] = [_value(content) for content in only_read(contents)]
    values["tools_dict"] = dict(request.tools_dict)
    values["dynamic_instructions"] = list(request.dynamic_instructions)
    config = values["config"] = fields_of(request.config)
    system = config.get("system_instruction")
    if isinstance(system, str):
        config["system_instruction"] = blocks_of(system, blocks)
    return Fields(type(request), values)


def _known_tree(content: types.Content, known: Known) -> Fields:
    found = known.get(id(content))
    if found is None:
        found = known[id(content)] = content, fields_of(content)
    return found[1]


def blocks_of(text: str, known: Sequence[str] = ()) -> Blocks:
    """A text as blocks: the known ones that still stand at its beginning and end, and what is between them as one."""
    ahead: list[str] = []
    rest = text
    for block in known:
        if rest != block and not rest.startswith(block + SEPARATOR):
            break
        ahead.append(block)
        if rest == block:
            return Blocks(ahead)
        rest = rest[len(block) + len(SEPARATOR) :]
    behind: list[str] = []
    for block in reversed(known[len(ahead) :]):
        if rest != block and not rest.endswith(SEPARATOR + block):
            break
        behind.insert(0, block)
        if rest == block:
            return Blocks([*ahead, *behind])
        rest = rest[: -len(block) - len(SEPARATOR)]
    return Blocks([*ahead, rest, *behind])


def request_of(tree: Fields) -> LlmRequest:
    """The request that a tree was made of: equal, with containers of its own."""
    made = _object(tree)
    assert isinstance(made, LlmRequest)
    return made


def empty_tree() -> Fields:
    """The tree of a request with nothing in it."""
    return tree_of(LlmRequest.empty(None))


def _set_fields(model: BaseModel) -> dict[str, Any]:
    fields = {name: value for name, value in stored(model).items() if value is not None}
    return fields | (model.__pydantic_extra__ or {})


def fields_of(model: BaseModel) -> Fields:
    """An object as a tree."""
    return Fields(type(model), {name: _value(value) for name, value in _set_fields(model).items()})


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, BaseModel):
        return fields_of(value)
    if isinstance(value, list | tuple):
        return [_value(item) for item in cast(Sequence[Any], value)]
    if isinstance(value, dict):
        return {key: _value(item) for key, item in cast(dict[Any, Any], value).items()}
    return value


def _object(value: Any) -> Any:
    if isinstance(value, Fields):
        return _model(value)
    if isinstance(value, Blocks):
        return str(value)
    if isinstance(value, list):
        return [_object(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: _object(item) for key, item in cast(dict[Any, Any], value).items()}
    return value


_prototypes: dict[type[BaseModel], BaseModel] = {types.GenerateContentConfig: EMPTY_CONFIG}


def _model(fields: Fields) -> BaseModel:
    prototype = _prototypes.get(fields.cls)
    if prototype is None:
        # every field is given: defaults are none of the tree's
        nothing = dict.fromkeys(fields.cls.model_fields)
        prototype = _prototypes[fields.cls] = fields.cls.model_construct(**nothing)
    known = fields.cls.model_fields
    new = replace(prototype, **{name: _object(value) for name, value in fields.items() if name in known})
    if new.__pydantic_extra__ is not None:
        new.__pydantic_extra__.update({name: _object(value) for name, value in fields.items() if name not in known})
    return new
