"""The operations of a document, each with what a model is told of it and how it is sent (protocols spec §3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from flowloom.protocols.openapi.allof import joined
from flowloom.protocols.openapi.bodies import BODY, FILE, Body, Encoding, chosen, kind_of, plain_media
from flowloom.protocols.openapi.naming import argument_names
from flowloom.protocols.openapi.schemas import DescriptionError, Place, Schema, Schemas, nullable
from flowloom.protocols.openapi.styles import Parameter
from flowloom.protocols.words import cleaned

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})
REPEATABLE = SAFE | {"PUT", "DELETE"}
"""The methods of which a second call is as good as one (RFC 9110, 9.2.2)."""

_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("simple", "form", "cookie"),
}
# Accept, Content-Type and Authorization are not for parameters (OpenAPI 3.1.1, "Parameter Object"); the others say
# where a request goes and how long it is, or hold credentials.
_OWN_HEADERS = frozenset(
    "accept content-type authorization host content-length transfer-encoding connection upgrade te trailer expect "
    "cookie proxy-authorization".split()
)
_TEMPLATE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: what the model is told, and how its arguments become a request."""

    method: str
    path: str
    """As the document has it, with `{name}` for parameters."""
    server: str
    """The address of its server; without scheme and host if nothing says where that is."""
    description: str
    schema: Schema
    """The arguments, as a JSON schema of an object with its own `$defs`."""
    parameters: tuple[Parameter, ...]
    body: Body | None
    security: tuple[tuple[str, ...], ...]
    """The alternatives of security schemes, each with all that it needs; empty for none."""
    defaults: Mapping[str, Any]
    """What is sent for arguments that have to be sent and were left out."""

    @property
    def label(self) -> str:
        """Method and path, for texts."""
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class _Argument:
    """An argument before it has a name."""

    place: str
    name: str
    schema: Schema
    required: bool
    parameter: Mapping[str, Any] | None = None
    media: str | None = None
    needed: bool = False
    """Whether a body that is there needs it."""

    @property
    def has_default(self) -> bool:
        """Whether it is sent when it was left out."""
        return self.required and "default" in self.schema


class OperationReader:
    """Reads operations with the schemas of one document. `preserve` keeps the document's names."""

    def __init__(self, schemas: Schemas, *, preserve: bool) -> None:
        self._schemas = schemas
        self._preserve = preserve

    def read(
        self,
        method: str,
        path: str,
        operation: Place,
        shared: Place,
        server: str,
        security: tuple[tuple[str, ...], ...],
    ) -> Operation:
        """The operation at a place; `shared` are the parameters of its path. Raises `DescriptionError`."""
        self._schemas.left = type(self._schemas).BUDGET
        if not path.startswith("/"):
            raise DescriptionError("its path does not begin with `/`")
        source = _object(operation.value, "an operation")
        arguments = list(self._parameters(path, Place(source.get("parameters"), operation.look_up), shared))
        body, parts = self._body(source, operation)
        names = argument_names([(each.place, each.name) for each in (*arguments, *parts)], preserve=self._preserve)
        named = dict(zip(names, (*arguments, *parts), strict=True))
        schema: Schema = {"type": "object", "properties": {name: each.schema for name, each in named.items()}}
        defaults = {name: each.schema["default"] for name, each in named.items() if each.has_default}
        required = [name for name, each in named.items() if each.required and name not in defaults]
        if required:
            schema["required"] = required
        if body is not None:
            body = _named(body, {name: each for name, each in named.items() if each.place == "body"})
            if body.rest is not None:
                schema["additionalProperties"] = body.rest
        defs = self._schemas.defs_of(schema)
        if defs:
            schema["$defs"] = defs
        return Operation(
            method.upper(),
            path,
            server,
            _description(source, method, path),
            schema,
            tuple(_parameter(each, name) for name, each in named.items() if each.place != "body"),
            body,
            security,
            defaults,
        )

    # -- parameters -------------------------------------------------------------------------------

    def _parameters(self, path: str, own: Place, shared: Place) -> Iterator[_Argument]:
        """The parameters of a path and of an operation, of which the latter count; each once."""
        found: dict[tuple[str, str], Place] = {}
        for place in (*_listed(shared), *_listed(own)):
            held = _resolved(place)
            source = _object(held.value, "a parameter")
            name, where = source.get("name"), source.get("in")
            if not isinstance(name, str) or not name or where not in _STYLES:
                raise DescriptionError(f"a parameter has the name {name!r:.60} and is in {where!r:.60}")
            found[where, name.lower() if where == "header" else name] = held
        in_path = dict.fromkeys(_TEMPLATE.findall(path))
        for (where, name), held in found.items():
            if (where == "header" and name in _OWN_HEADERS) or (where == "path" and name not in in_path):
                continue
            in_path.pop(name, None) if where == "path" else None
            yield self._argument(held, where)
        for name in in_path:  # which the document forgot to describe
            parameter = {"name": name, "in": "path", "style": "simple"}
            yield _Argument("path", name, {"type": "string"}, True, parameter)

    def _argument(self, place: Place, where: str) -> _Argument:
        source = cast(dict[str, Any], place.value)
        content = source.get("content")
        media: str | None = None
        if isinstance(content, dict) and content:
            media, held = next(iter(cast(dict[str, Any], content).items()))
            schema = self._schemas.read(Place(_object(held, "a media type").get("schema", True), place.look_up))
        else:
            schema = self._schemas.read(Place(source.get("schema", True), place.look_up))
            style = source.get("style")
            if style is not None and style not in _STYLES[where]:
                raise DescriptionError(f"the parameter `{source['name']}` in {where} has the style {style!r:.60}")
        schema = dict(schema)
        told = source.get("description")
        if isinstance(told, str) and told.strip():
            schema["description"] = cleaned(told).strip()
        if source.get("deprecated") is True:
            schema["description"] = joined("Deprecated.", schema.get("description"))
        schema.pop("readOnly", None)
        required = where == "path" or source.get("required") is True
        return _Argument(where, source["name"], schema, required, source, media)

    # -- bodies -----------------------------------------------------------------------------------

    def _body(self, source: Mapping[str, Any], place: Place) -> tuple[Body | None, list[_Argument]]:
        """The body of an operation, and the arguments that it is made of."""
        if source.get("requestBody") is None:
            return None, []
        held = _resolved(Place(source["requestBody"], place.look_up))
        request = _object(held.value, "a request body")
        content = _object(request.get("content"), "the content of a request body")
        media = chosen(content)
        if media is None:
            raise DescriptionError(f"its body is none that can be written: {', '.join(content) or 'no media type'}")
        kind, required = kind_of(media) or "", request.get("required") is True
        told = _object(content[media], "a media type")
        given = Place(told.get("schema", True), held.look_up)
        description = cleaned(str(request.get("description") or "")).strip()
        if kind in ("text", "bytes"):
            whole: Schema = dict(FILE) if kind == "bytes" else {"type": "string"}
            read = self._schemas.read(given)
            whole |= {key: read[key] for key in ("description", "examples", "maxLength") if key in read}
            return self._whole(media, kind, required, whole, description, {})
        schema = self._schemas.expanded(given)
        if plain_media(media) == "application/merge-patch+json":
            schema = _patchable(schema)
        encodings = _encodings(told.get("encoding"))
        if not _is_flat(schema):
            return self._whole(media, kind, required, self._schemas.read(given), description, encodings)
        needed = set(cast(list[str], schema.get("required", ())))
        parts: list[_Argument] = []
        files: set[str] = set()
        for name, each in cast(dict[str, Schema], schema["properties"]).items():
            if kind == "multipart" and (file := _as_file(each, encodings.get(name))) is not None:
                files.add(name)
                each = file
            parts.append(_Argument("body", name, each, required and name in needed, needed=name in needed))
        rest = schema.get("additionalProperties", False)
        rest = None if rest is False else rest  # the empty schema takes anything
        return Body(media, kind, required, None, rest=rest, encodings=encodings, files=frozenset(files)), parts

    @staticmethod
    def _whole(
        media: str, kind: str, required: bool, schema: Schema, description: str, encodings: Mapping[str, Encoding]
    ) -> tuple[Body, list[_Argument]]:
        """A body that is one argument."""
        schema = dict(schema)
        text = joined(description, schema.get("description"))
        if text:
            schema["description"] = text
        return Body(media, kind, required, BODY, encodings=encodings), [_Argument("body", BODY, schema, required)]


def _named(body: Body, parts: Mapping[str, _Argument]) -> Body:
    """A body that knows what its arguments are called."""
    if body.argument is not None:
        (argument,) = parts
        return replace(body, argument=argument)
    properties = {argument: part.name for argument, part in parts.items()}
    needed = frozenset(argument for argument, part in parts.items() if part.needed and not part.has_default)
    return replace(body, properties=properties, needed=needed)


def _parameter(argument: _Argument, name: str) -> Parameter:
    source = argument.parameter or {}
    style = source.get("style") or ("form" if argument.place == "query" else "simple")
    explode = source.get("explode")
    kind: Any = argument.schema.get("type")
    return Parameter(
        argument.name,
        argument.place,
        name,
        style,
        explode=explode if isinstance(explode, bool) else argument.place == "query" and style == "form",
        required=argument.required,
        allow_reserved=argument.place == "query" and source.get("allowReserved") is True,
        as_json=argument.media is not None and kind_of(argument.media) == "json",
        integral=kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind),
    )


def _description(source: Mapping[str, Any], method: str, path: str) -> str:
    texts = [source.get("summary"), source.get("description")]
    told = joined(*(cleaned(text).strip() for text in texts if isinstance(text, str)))
    told = told or f"{method.upper()} {path}"
    return joined("Deprecated.", told) if source.get("deprecated") is True else told


def _is_flat(schema: Schema) -> bool:
    """Whether a body's properties can be arguments."""
    if schema.get("type", "object") != "object" or not schema.get("properties"):
        return False
    return not schema.keys() & {"oneOf", "anyOf", "allOf", "not", "if", "dependentSchemas", "patternProperties", "$ref"}


def _patchable(schema: Schema) -> Schema:
    """The schema of a merge patch (RFC 7396), in which null takes a property away."""
    if "properties" not in schema:
        return schema
    properties = cast(dict[str, Schema], schema["properties"])
    return schema | {"properties": {name: nullable(_patchable(each)) for name, each in properties.items()}}


def _as_file(schema: Schema, encoding: Encoding | None) -> Schema | None:
    """How a property of a form that is a file, or a list of them, is told; None for another one."""
    if schema.get("type") == "array":
        inner = _as_file(cast(Schema, schema.get("items", {})), encoding)
        return None if inner is None else schema | {"items": inner}
    binary = schema.get("format") == "binary" or ("contentMediaType" in schema and "contentEncoding" not in schema)
    if not binary and not schema.keys() - {"description", "title"}:
        binary = encoding is not None and encoding.media is not None and kind_of(encoding.media) == "bytes"
    if not binary:
        members = cast(list[Schema], schema.get("anyOf") or schema.get("oneOf") or ())
        binary = any(_as_file(each, encoding) is not None for each in members)
    if not binary:
        return None
    return {key: schema[key] for key in ("description", "title") if key in schema} | FILE


def _encodings(given: Any) -> dict[str, Encoding]:
    found: dict[str, Encoding] = {}
    for name, each in cast(dict[str, Any], given).items() if isinstance(given, dict) else ():
        held = cast(dict[str, Any], each) if isinstance(each, dict) else {}
        media, style, explode = held.get("contentType"), held.get("style"), held.get("explode")
        explode = explode if isinstance(explode, bool) else style in (None, "form")
        found[name] = Encoding(
            media if isinstance(media, str) else None, style if isinstance(style, str) else None, explode
        )
    return found


def _resolved(place: Place) -> Place:
    """What is at a place, or what is referred to from there."""
    for _ in range(20):
        value = place.value
        reference = cast(dict[str, Any], value).get("$ref") if isinstance(value, dict) else None
        if not isinstance(reference, str):
            return place
        found = place.look_up(reference)
        rest = {key: each for key, each in cast(dict[str, Any], value).items() if key != "$ref"}
        if rest and isinstance(found.value, dict):
            found = Place({**cast(dict[str, Any], found.value), **rest}, found.look_up)
        place = found
    raise DescriptionError("a reference leads to itself")


def path_item(place: Place) -> Place:
    """A path item, with what it refers to."""
    return _resolved(place)


def _listed(place: Place) -> Iterator[Place]:
    value = place.value
    if value is not None and not isinstance(value, list):
        raise DescriptionError("its parameters are no list")
    for each in cast(list[Any], value or ()):
        yield Place(each, place.look_up)


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DescriptionError(f"there is {value!r:.60} where {what} is expected")
    return cast(dict[str, Any], value)
