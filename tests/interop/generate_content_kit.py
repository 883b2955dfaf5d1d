"""Values of google-genai's types for property tests, made from the fields that the types have."""

from __future__ import annotations

import datetime
import functools
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

from google.genai import types
from hypothesis import strategies as st
from pydantic import BaseModel

from flowloom import LlmRequest
from flowloom.interop.generate_content_places import LEFT_OUT
from flowloom.interop.generate_content_responses import CLIENTS_OWN

# Short for something else, so that they come back in another form: they have tests of their own.
SHORTHANDS = {
    types.GenerateContentConfig: {*LEFT_OUT, "system_instruction"},
    types.GenerateContentResponse: {*CLIENTS_OWN},
    types.ImageConfig: {"output_mime_type", "output_compression_quality"},
}
# Fields with a type that is wider than what they are read as.
NARROWED: dict[tuple[type[BaseModel], str], Any] = {
    (types.GenerateContentConfig, "response_schema"): types.Schema,
    (types.GenerateContentConfig, "speech_config"): types.SpeechConfig,
    (types.GenerateContentConfig, "tools"): list[types.Tool],
    (types.GenerateContentConfig, "response_modalities"): list[types.Modality],
    (types.CitationMetadata, "citations"): list[types.Citation],
}
ROOTS: tuple[type[BaseModel], ...] = (types.GenerateContentConfig, types.Content, types.GenerateContentResponse)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
WHOLE = st.integers(-1000, 1000)
TIMES = st.datetimes(min_value=datetime.datetime(1970, 1, 1), timezones=st.just(datetime.UTC))
SCALARS = st.none() | st.booleans() | WHOLE | NUMBERS | TEXTS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=4
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    bool: st.booleans(),
    int: WHOLE,
    float: NUMBERS,
    bytes: st.binary(max_size=4),
    datetime.datetime: TIMES,
}


def fields_of(model: type[BaseModel]) -> dict[str, Any]:
    """The fields of a type that travel, and what they hold; `Optional` is taken off."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name not in SHORTHANDS.get(model, ()):
            options = [each for each in typing.get_args(field.annotation) if each is not type(None)]
            kind = options[0] if len(options) == 1 else field.annotation
            fields[name] = NARROWED.get((model, name), kind)
    return fields


def value_of(kind: Any, depth: int) -> st.SearchStrategy[Any] | None:
    """Values of a kind; None if they are objects and may not go that deep."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        inner = value_of(arguments[0], depth)
        return None if inner is None else st.lists(inner, max_size=2)
    if origin is dict and arguments[1] is not Any:
        inner = value_of(arguments[1], depth)
        return None if inner is None else st.dictionaries(TEXTS, inner, max_size=2)
    if origin is dict:
        return st.dictionaries(TEXTS, JSON, max_size=2)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if kind is Any:
        return JSON.filter(lambda value: value is not None)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    if issubclass(kind, BaseModel):
        return objects(kind, depth - 1) if depth else None
    return PLAIN[kind]


@functools.cache
def objects(model: type[BaseModel], depth: int = 3) -> st.SearchStrategy[Any]:
    """Objects of a type of google-genai, with a few of their fields."""
    strategies = {name: value_of(kind, depth) for name, kind in fields_of(model).items()}
    possible = {name: values for name, values in strategies.items() if values is not None}
    if not possible:
        return st.just(model())
    chosen = st.lists(st.sampled_from(sorted(possible)), unique=True, max_size=3)
    given = chosen.flatmap(lambda names: st.fixed_dictionaries({name: possible[name] for name in names}))
    return given.map(lambda values: model.model_construct(**values))


def is_plain(content: types.Content) -> bool:
    """Whether a system instruction of this form comes back as a text."""
    parts = content.parts or []
    return content.role == "user" and [types.Part(text=part.text) for part in parts if part.text is not None] == parts


CONTENTS = st.lists(objects(types.Content, 4), max_size=2)
INSTRUCTIONS = st.none() | TEXTS | objects(types.Content).filter(lambda content: not is_plain(content))
CONFIGS = st.builds(
    lambda config, instruction: config.model_copy(update={"system_instruction": instruction}),
    objects(types.GenerateContentConfig, 4),
    INSTRUCTIONS,
)
REQUESTS = st.builds(
    lambda contents, config: LlmRequest(model="gemini-x", contents=contents, config=config), CONTENTS, CONFIGS
)
ANSWERS = objects(types.GenerateContentResponse, 5)


Path = tuple[tuple[type[BaseModel], str], ...]


def every_path() -> Iterator[Path]:
    """A way from a root to each field of each type below it, the shortest there is."""
    seen: set[type[BaseModel]] = set()
    waiting: list[tuple[type[BaseModel], Path]] = [(root, ()) for root in ROOTS]
    while waiting:
        model, path = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        for name, kind in fields_of(model).items():
            yield (*path, (model, name))
            inner = inner_model(kind)
            if inner is not None:
                waiting.append((inner, (*path, (model, name))))


def inner_model(kind: Any) -> type[BaseModel] | None:
    """The type of google-genai that a field holds, or has a list or dict of."""
    while typing.get_origin(kind) in (list, dict):
        kind = typing.get_args(kind)[-1]
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def wrapped(kind: Any, value: Any) -> Any:
    """A value in the lists and dicts of its field."""
    if typing.get_origin(kind) is list:
        return [wrapped(typing.get_args(kind)[0], value)]
    if typing.get_origin(kind) is dict and value is not ...:
        return {"k": wrapped(typing.get_args(kind)[1], value)}
    return value


SAMPLES: dict[Any, Any] = {
    str: "text",
    bool: False,
    int: 0,
    float: 0.5,
    bytes: b"\xfb\xff\xfe",
    datetime.datetime: datetime.datetime(2025, 1, 31, 12, 30, 15, 120000, datetime.UTC),
    Any: {"a": [1, 0.5, None, {"b": "c"}]},
}


def sample(kind: Any, samples: dict[Any, Any]) -> Any:
    """One value of a kind, the empty object for a type of google-genai."""
    if typing.get_origin(kind) in (list, dict):
        return wrapped(kind, sample(typing.get_args(kind)[-1], samples))
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)[-1]
    if kind in samples:
        return samples[kind]
    return list(kind)[-1] if issubclass(kind, Enum) else kind()


def along(path: Path, samples: dict[Any, Any] = SAMPLES) -> Any:
    """An object of the path's root in which that one field is set."""
    model, name = path[-1]
    value = sample(fields_of(model)[name], samples)
    for holder, field in reversed(path[:-1]):
        value = wrapped(fields_of(holder)[field], model.model_construct(**{name: value}))
        model, name = holder, field
    return model.model_construct(**{name: value})


def request_with(root: Any) -> LlmRequest | None:
    """A request with this config or content."""
    if isinstance(root, types.GenerateContentConfig):
        return LlmRequest(config=root)
    return LlmRequest(contents=[root]) if isinstance(root, types.Content) else None
