"""google-genai's types from and to the JSON of the REST API, by codecs that are made once for each type.

What a type has no field for is kept in the object's `model_extra` and written back: it goes where the object goes.
google-genai's own conversion drops it, and pydantic's validation refuses it.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import functools
import math
import types as python_types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel

from flowloom.events.wire import assemble, fields_of, private_of, set_extra
from flowloom.interop.generate_content_misfit import Misfit, kind_of, unexpected

Convert = Callable[[Any], Any]
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Codec:
    """How values of one type are read and written. This one is for any JSON: it copies it."""

    def read(self, value: Any) -> Any:
        """The value of JSON data; a value of the type itself is accepted too. Raises `Misfit`."""
        return json_copy(value, url_safe=False)

    def write(self, value: Any, *, url_safe: bool) -> Any:
        """JSON data; `url_safe` names the alphabet of its base64. Raises `Misfit`."""
        return json_copy(value, url_safe=url_safe)


def json_copy(value: Any, *, url_safe: bool) -> Any:
    """Data as JSON data of its own. Raises `Misfit` for what JSON does not have."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise Misfit(f"JSON has no number {value}")
    if isinstance(value, Mapping):
        copied: dict[str, Any] = {}
        for key, item in cast(Mapping[Any, Any], value).items():
            if not isinstance(key, str):
                raise Misfit(f"names of a JSON object are strings, not {kind_of(key)}")
            try:
                copied[key] = json_copy(item, url_safe=url_safe)
            except Misfit as misfit:
                raise misfit.within(key) from None
        return copied
    if isinstance(value, list | tuple):
        return each(value, partial(json_copy, url_safe=url_safe))
    if isinstance(value, bytes):
        return _BYTES.write(value, url_safe=url_safe)
    if isinstance(value, datetime.datetime):
        return _TIME.write(value, url_safe=url_safe)
    if isinstance(value, BaseModel) and type(value).__module__ == types.__name__:
        return model_codec(type(value)).write(value, url_safe=url_safe)
    raise Misfit(f"{kind_of(value)} is no JSON")


def each(values: Any, convert: Convert) -> list[Any]:
    """The items of an array, each converted. Raises `Misfit`."""
    if not isinstance(values, list | tuple):
        raise unexpected("an array", values)
    converted: list[Any] = []
    for index, value in enumerate(cast("Sequence[Any]", values)):
        try:
            converted.append(convert(value))
        except Misfit as misfit:
            raise misfit.within(index) from None
    return converted


class _Text(Codec):
    def read(self, value: Any) -> str:
        if isinstance(value, Enum):
            value = value.value
        if not isinstance(value, str):
            raise unexpected("a string", value)
        return value

    def write(self, value: Any, *, url_safe: bool) -> str:
        return self.read(value)


class _Flag(Codec):
    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise unexpected("true or false", value)
        return value

    def write(self, value: Any, *, url_safe: bool) -> bool:
        return self.read(value)


class _Whole(Codec):
    """Numbers of 64 bits come as text, others may come with a decimal point."""

    def read(self, value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        try:
            number = int(value) if isinstance(value, str | float) else None
        except (ValueError, OverflowError):
            number = None
        if number is None or (isinstance(value, float) and float(number) != value):
            raise unexpected("a whole number", value)
        return number

    def write(self, value: Any, *, url_safe: bool) -> int:
        return self.read(value)


class _Number(Codec):
    def read(self, value: Any) -> float:
        try:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
            if isinstance(value, str):
                return _NOT_FINITE[value] if value in _NOT_FINITE else float(value)
        except (ValueError, OverflowError):
            pass
        raise unexpected("a number", value)

    def write(self, value: Any, *, url_safe: bool) -> float | str:
        number = self.read(value)
        if math.isfinite(number):
            return number
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


class _Bytes(Codec):
    """Base64 of either alphabet, padded or not."""

    def read(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        if not isinstance(value, str):
            raise unexpected("base64 text", value)
        text = value.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise Misfit("this is no base64") from None

    def write(self, value: Any, *, url_safe: bool) -> str:
        data = self.read(value)
        return (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()


class _Time(Codec):
    """RFC 3339, in UTC; a time without a zone is taken for UTC. Microseconds are kept, nanoseconds are not."""

    def read(self, value: Any) -> datetime.datetime:
        moment = value
        try:
            if isinstance(value, str):
                moment = datetime.datetime.fromisoformat(value)
            if isinstance(moment, datetime.datetime):
                return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            pass
        raise Misfit("a time such as `2025-01-31T12:00:00Z` is expected")

    def write(self, value: Any, *, url_safe: bool) -> str:
        moment = self.read(value).replace(tzinfo=None)
        digits = moment.microsecond
        spec = "seconds" if not digits else "microseconds" if digits % 1000 else "milliseconds"
        return moment.isoformat(timespec=spec) + "Z"


class _Member(Codec):
    """A member of an enum in any case; one that is not known is kept, with its text or its number for a value."""

    def __init__(self, kind: type[Enum]) -> None:
        self._kind = kind
        self._by_value: dict[str, Enum] = {str(member.value): member for member in kind}

    def read(self, value: Any) -> Enum:
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise unexpected("a string", value)
        named = self._kind.__members__
        known = self._by_value.get(value) or named.get(value.upper()) or named.get(value.lower())
        return self._unknown(value) if known is None else known

    def _unknown(self, value: str) -> Enum:
        """A stand-in as google-genai makes it, without its warning."""
        member: Any = str.__new__(cast(Any, self._kind), value)
        member._name_ = member._value_ = value
        return member

    def write(self, value: Any, *, url_safe: bool) -> str | int:
        text = str(self.read(value).value)
        return int(text) if text.isascii() and text.isdigit() else text


class _Items(Codec):
    def __init__(self, item: Codec) -> None:
        self._item = item

    def read(self, value: Any) -> list[Any]:
        return each(value, self._item.read)

    def write(self, value: Any, *, url_safe: bool) -> list[Any]:
        return each(value, partial(self._item.write, url_safe=url_safe))


class _Entries(Codec):
    def __init__(self, item: Codec) -> None:
        self._item = item

    def read(self, value: Any) -> dict[str, Any]:
        return self._entries(value, self._item.read)

    def write(self, value: Any, *, url_safe: bool) -> dict[str, Any]:
        return self._entries(value, partial(self._item.write, url_safe=url_safe))

    def _entries(self, value: Any, convert: Convert) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise unexpected("an object", value)
        entries: dict[str, Any] = {}
        for key, item in cast(Mapping[Any, Any], value).items():
            try:
                entries[_TEXT.read(key)] = convert(item)
            except Misfit as misfit:
                raise misfit.within(key) from None
        return entries


class ModelCodec(Codec):
    """An object of google-genai. Names are read in camelCase and snake_case, and written in camelCase.

    `special` has the codecs of fields that need one of their own, `also` further names of fields.
    """

    def __init__(
        self,
        model: type[BaseModel],
        special: Mapping[str, Codec] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self.codecs = {
            name: (special or {}).get(name) or codec_of(field.annotation) for name, field in model.model_fields.items()
        }
        self.aliases = {name: field.alias or name for name, field in model.model_fields.items()}
        self._names = {alias: name for name, alias in self.aliases.items()} | {name: name for name in self.aliases}
        self._names |= also or {}
        self._defaults = {
            name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()
        }
        self._private = private_of(model)

    def read(self, value: Any) -> Any:
        if isinstance(value, self.model):
            return value
        if isinstance(value, BaseModel):  # of another release, or another class of the same form
            value = value.model_dump(exclude_none=True)
        if not isinstance(value, Mapping):
            raise unexpected("an object", value)
        return self.made(*self.read_fields(cast(Mapping[str, Any], value)))

    def read_fields(
        self, data: Mapping[str, Any], names: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of the fields (those of `names`, if given), and what there is no field for.

        Null is as if not given.
        """
        names = self._names if names is None else names
        values: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, item in data.items():
            name = names.get(key)
            if name is None:
                unknown[_TEXT.read(key)] = item
            elif item is not None:
                if name in values:
                    raise Misfit("it is there twice, in two spellings", key)
                try:
                    values[name] = self.codecs[name].read(item)
                except Misfit as misfit:
                    raise misfit.within(key) from None
        return values, unknown

    def made(self, values: dict[str, Any], unknown: dict[str, Any]) -> Any:
        """An object of these values."""
        new = assemble(self.model, self._defaults | values, set(values), None, self._private and self._private())
        keep_unknown(new, unknown)
        return new

    def write(self, value: Any, *, url_safe: bool) -> dict[str, Any]:
        item = self.read(value)
        written = self.write_fields(item, self.aliases, url_safe=url_safe)
        add_unknown(written, item, url_safe=url_safe)
        return written

    def write_fields(self, value: Any, places: Mapping[str, str], *, url_safe: bool) -> dict[str, Any]:
        """The fields that are in `places`, under the names that they have there."""
        fields = fields_of(value)
        written: dict[str, Any] = {}
        for name, alias in places.items():
            item = fields.get(name)
            if item is not None:
                try:
                    written[alias] = self.codecs[name].write(item, url_safe=url_safe)
                except Misfit as misfit:
                    raise misfit.within(name) from None
        return written


def keep_unknown(model: BaseModel, unknown: Mapping[str, Any]) -> None:
    """Keep what an object has no field for as its `model_extra`."""
    if unknown:
        set_extra(model, json_copy(unknown, url_safe=False))


def add_unknown(written: dict[str, Any], value: Any, *, url_safe: bool) -> None:
    """Put what an object has no field for beside what it has."""
    unknown: dict[str, Any] = getattr(value, "model_extra", None) or {}
    for name, item in unknown.items():
        if name not in written:
            try:
                written[name] = json_copy(item, url_safe=url_safe)
            except Misfit as misfit:
                raise misfit.within(name) from None


class _ImageConfig(ModelCodec):
    """The picture's MIME type and quality have a place on google-genai's type that the JSON does not have."""

    _MOVED = {"output_mime_type": "mime_type", "output_compression_quality": "compression_quality"}  # noqa: RUF012

    def write(self, value: Any, *, url_safe: bool) -> dict[str, Any]:
        config = cast(types.ImageConfig, self.read(value))
        fields = fields_of(config)
        moved = {new: fields[old] for old, new in self._MOVED.items() if fields.get(old) is not None}
        if moved:
            given: Any = model_codec(types.ImageConfigImageOutputOptions).read(config.image_output_options or {})
            output = given.model_copy(
                update={name: item for name, item in moved.items() if fields_of(given)[name] is None}
            )
            config = config.model_copy(update={"image_output_options": output, **dict.fromkeys(self._MOVED)})
        return super().write(config, url_safe=url_safe)


class _PartialArg(ModelCodec):
    """In the JSON of protobuf a null value is null, which elsewhere is as if not given."""

    _VALUES = ("bool_value", "number_value", "string_value")

    def read_fields(
        self, data: Mapping[str, Any], names: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        values, unknown = super().read_fields(data, names)
        is_null = "nullValue" in data or "null_value" in data
        if is_null and not any(name in values for name in self._VALUES):
            values["null_value"] = "NULL_VALUE"
        return values, unknown


@functools.cache
def model_codec(model: type[BaseModel]) -> ModelCodec:
    """The codec of a type of google-genai."""
    if model is types.ImageConfig:
        return _ImageConfig(model)
    if model is types.PartialArg:
        return _PartialArg(model)
    # The Gemini API's name for it.
    also = {"citationSources": "citations"} if model is types.CitationMetadata else None
    return ModelCodec(model, also=also)


class _Later(Codec):
    """The codec of a type, made when it is needed: types refer to each other in circles."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def read(self, value: Any) -> Any:
        return model_codec(self._model).read(value)

    def write(self, value: Any, *, url_safe: bool) -> Any:
        return model_codec(self._model).write(value, url_safe=url_safe)


_ANY, _TEXT, _BYTES, _TIME = Codec(), _Text(), _Bytes(), _Time()
_PLAIN: dict[Any, Codec] = {
    str: _TEXT, bool: _Flag(), int: _Whole(), float: _Number(), bytes: _BYTES, datetime.datetime: _TIME
}  # fmt: skip


def codec_of(annotation: Any) -> Codec:
    """The codec of values of that type; for what is none of JSON's kinds, the one for any JSON."""
    kind = _without_none(annotation)
    if isinstance(kind, type) and kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return _Items(codec_of(arguments[0]))
    if origin is dict:
        return _Entries(codec_of(arguments[1]))
    if origin is typing.Literal:
        return _TEXT
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _Member(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _Later(kind)
    return _ANY


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, python_types.UnionType):
        options = [option for option in typing.get_args(annotation) if option is not type(None)]
        return options[0] if len(options) == 1 else annotation
    return annotation
