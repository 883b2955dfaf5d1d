"""The bodies of requests: JSON, forms, files, text and bytes (protocols spec §3, Sent)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import mimetypes
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from google.genai import types

from flowloom.errors import ToolArgumentsError, quoted_list
from flowloom.protocols.openapi.styles import Parameter, plain_text, query_pairs

BODY = "body"
OCTETS = "application/octet-stream"
FILE: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "contentEncoding": "base64"},
        {
            "type": "object",
            "properties": {"artifact": {"type": "string", "description": "The name of a file of this conversation."}},
            "required": ["artifact"],
        },
    ]
}
"""How a file is given: its bytes in base64, or the name of an artifact."""

LoadArtifact = Callable[[str], Awaitable[types.Part | None]]

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one property of a form is written."""

    media: str | None = None
    style: str | None = None
    explode: bool = True


@dataclass(frozen=True, slots=True)
class Body:
    """The body of an operation: its media type, and which arguments it is made of."""

    media: str
    kind: str
    """`json`, `form`, `multipart`, `text` or `bytes`."""
    required: bool
    argument: str | None
    """The argument that is all of it; None if its properties are arguments."""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    """The arguments of its properties, and what these are called."""
    rest: Any = None
    """The schema of arguments that are not declared, if they are properties too; else None."""
    encodings: Mapping[str, Encoding] = field(default_factory=dict[str, Encoding])
    files: frozenset[str] = frozenset()
    """The properties that are files."""
    needed: frozenset[str] = frozenset()
    """The arguments without which there is no body."""


class _File(NamedTuple):
    data: bytes
    media: str
    name: str


def kind_of(media: str) -> str | None:
    """How bodies of a media type are written: `json`, `form`, `multipart`, `text`, `bytes`; None if they are not."""
    plain = plain_media(media)
    if plain == "application/json" or plain.endswith("+json") or plain == "*/*":
        return "json"
    if plain == "application/x-www-form-urlencoded":
        return "form"
    if plain.startswith("multipart/"):
        return "multipart" if plain == "multipart/form-data" else None
    if plain.endswith(("/xml", "+xml")):
        return None
    if plain.startswith("text/"):
        return "text"
    families = ("image/", "audio/", "video/", "font/", "model/")
    binary = plain in (OCTETS, "application/pdf", "application/zip", "application/gzip", "application/*")
    return "bytes" if binary or plain.startswith(families) else None


def plain_media(media: str) -> str:
    """A media type without parameters, in lower case."""
    return media.partition(";")[0].strip().lower()


def chosen(content: Mapping[str, Any]) -> str | None:
    """The media type that a body is written in: JSON if there is one, else the first that can be; None without one."""
    writable = [media for media in content if kind_of(media)]
    return next((media for media in writable if kind_of(media) == "json"), next(iter(writable), None))


def value_of(body: Body, args: Mapping[str, Any], declared: frozenset[str]) -> tuple[bool, Any]:
    """Whether there is a body among `args`, and what it is. `declared` are all arguments that have a place.

    Raises `ToolArgumentsError` for a part of a body.
    """
    if body.argument is not None:
        return body.argument in args, args.get(body.argument)
    value = {name: args[argument] for argument, name in body.properties.items() if argument in args}
    if body.rest is not None:
        value |= {name: each for name, each in args.items() if name not in declared}
    missing = sorted(body.needed.difference(args)) if value or body.required else ()
    if missing:
        raise ToolArgumentsError(f"The body needs {quoted_list(missing)} as well.")
    return bool(value) or body.required, value


async def written(body: Body, value: Any, load_artifact: LoadArtifact) -> tuple[str, bytes]:
    """The `Content-Type` and the bytes of a body. Raises `ToolArgumentsError` for a value that cannot be written."""
    if body.kind == "json":
        media = "application/json" if body.media.strip() == "*/*" else body.media
        return media, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if body.kind == "text":
        return body.media, plain_text(value).encode("utf-8", "replace")
    if body.kind == "bytes":
        file = await _file(value, body.argument or BODY, None, load_artifact)
        return (file.media if "*" in body.media else body.media), file.data
    if not isinstance(value, dict):
        raise ToolArgumentsError(f"Argument `{body.argument}` has to be an object.")
    fields = {name: each for name, each in cast(dict[str, Any], value).items() if each is not None}
    if body.kind == "form":
        return body.media, "&".join(pair for name, each in fields.items() for pair in _form(body, name, each)).encode()
    return await _multipart(body, fields, load_artifact)


def _form(body: Body, name: str, value: Any) -> list[str]:
    """One field of `application/x-www-form-urlencoded`: styles as in a query, objects as JSON."""
    encoding = body.encodings.get(name, Encoding())
    as_json = encoding.style is None and (isinstance(value, dict) or _is_json(encoding.media))
    style = Parameter(name, "body", name, style=encoding.style or "form", explode=encoding.explode, as_json=as_json)
    return [pair.replace("%20", "+") for pair in query_pairs(style, value)]


async def _multipart(body: Body, fields: dict[str, Any], load_artifact: LoadArtifact) -> tuple[str, bytes]:
    parts: list[bytes] = []
    for name, value in fields.items():
        encoding = body.encodings.get(name, Encoding())
        single = not isinstance(value, list) or _is_json(encoding.media)
        for each in cast(list[Any], [value] if single else value):
            if name in body.files:
                file = await _file(each, name, encoding.media, load_artifact)
                parts.append(_part(name, file.data, file.media, file.name))
            elif isinstance(each, (dict, list)) or _is_json(encoding.media):
                text = json.dumps(each, ensure_ascii=False, separators=(",", ":"))
                parts.append(_part(name, text.encode("utf-8", "replace"), encoding.media or "application/json"))
            else:
                parts.append(_part(name, plain_text(each).encode("utf-8", "replace"), encoding.media))
    boundary = hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]  # which no part can hold
    ends = f"--{boundary}".encode()
    data = b"".join(ends + b"\r\n" + part + b"\r\n" for part in parts) + ends + b"--\r\n"
    return f"{plain_media(body.media)}; boundary={boundary}", data


def _part(name: str, data: bytes, media: str | None, filename: str | None = None) -> bytes:
    head = f'Content-Disposition: form-data; name="{_in_quotes(name)}"'
    if filename is not None:
        head += f'; filename="{_in_quotes(filename)}"'
    if media:
        head += f"\r\nContent-Type: {media}"
    return head.encode("utf-8", "replace") + b"\r\n\r\n" + data


def _in_quotes(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


async def _file(value: Any, name: str, media: str | None, load_artifact: LoadArtifact) -> _File:
    """The file that an argument stands for. Raises `ToolArgumentsError` if it is none."""
    told = None if media is None or "*" in media or "," in media else media
    if isinstance(value, dict):
        wanted = cast(dict[str, Any], value).get("artifact")
        part = await load_artifact(wanted) if isinstance(wanted, str) else None
        if part is None:
            raise ToolArgumentsError(f"Argument `{name}`: there is no artifact {wanted!r:.100}.")
        given = part.inline_data
        shown = str(wanted).removeprefix("user:").rpartition("/")[2]
        if given is not None and given.data is not None:
            return _File(given.data, told or given.mime_type or OCTETS, shown)
        if part.text is not None:
            return _File(part.text.encode("utf-8", "replace"), told or "text/plain", shown)
        raise ToolArgumentsError(f"Argument `{name}`: the artifact {wanted!r:.100} has no bytes of its own.")
    text = str(value)
    prefix = _DATA_URL.match(text)
    if prefix is not None:
        told, text = told or prefix[1], text[prefix.end() :]
    try:
        data = base64.b64decode("".join(text.split()).replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolArgumentsError(
            f'Argument `{name}` is a file: give its bytes in base64, or {{"artifact": name}} for a file of this '
            f"conversation."
        ) from error
    kind = told or OCTETS
    return _File(data, kind, name + (mimetypes.guess_extension(kind) or "") if kind != OCTETS else name)


def _is_json(media: str | None) -> bool:
    return media is not None and kind_of(media) == "json"
