"""Parameters as they are written into a request: the styles of OpenAPI (protocols spec §3, Sent).

The tables are those of OpenAPI 3.1.1 ("Style Examples"), after RFC 6570: what is not unreserved is percent-encoded,
null within a list or an object is left out. Headers are written as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

from flowloom.errors import ToolArgumentsError

_RESERVED = ":/?@!$'()*,;="
"""What `allowReserved` leaves as it is: reserved characters, without those that would end a value or are no part of a
query (`&`, `#`, `+` and brackets)."""
_TRIPLET = re.compile(r"(%[0-9A-Fa-f]{2})")
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation: its name in the document, where it goes, and how it is written."""

    name: str
    place: str
    """`path`, `query`, `header` or `cookie`."""
    argument: str
    """What the model knows it by."""
    style: str
    explode: bool
    required: bool = False
    allow_reserved: bool = False
    as_json: bool = False
    """Whether it is written as JSON, because the document has it under `content`."""
    integral: bool = False
    """Whether numbers are whole: `2.0` is written as `2`."""

    @property
    def label(self) -> str:
        """The argument, for error texts."""
        return f"Argument `{self.argument}`"


def path_text(parameter: Parameter, value: Any) -> str:
    """A path parameter's value as it stands in the path. Raises `ToolArgumentsError` for one that names no segment."""
    text = _path_text(parameter, value) if value is not None else ""
    decoded = unquote(text)  # the dot of the style `label` may make a step of what follows it
    for held in (*_texts(value), decoded if decoded != "." else ""):
        if any(step in (".", "..") for step in re.split(r"[/\\]", held)):
            raise ToolArgumentsError(f"{parameter.label} may not be `.` or `..`, or a path that has such a step.")
    if not text:
        raise ToolArgumentsError(f"{parameter.label} is empty, but stands for a part of the path.")
    return text


def _path_text(parameter: Parameter, value: Any) -> str:
    if parameter.as_json:
        return _quoted(_json(value))
    name = _quoted(parameter.name)
    items, pairs = _items(value, parameter), _pairs(value, parameter)
    exploded = parameter.explode
    if parameter.style == "matrix":
        if pairs is not None:
            return "".join(f";{k}={v}" for k, v in pairs) if exploded else f";{name}={_flat(pairs, ',')}"
        if isinstance(value, list):
            return "".join(f";{name}={item}" for item in items) if exploded else f";{name}={','.join(items)}"
        return f";{name}={items[0]}" if items and items[0] else f";{name}"
    joint = "." if parameter.style == "label" and exploded else ","
    if pairs is not None:
        text = joint.join(f"{k}={v}" for k, v in pairs) if exploded else _flat(pairs, ",")
    else:
        text = joint.join(items)
    return f".{text}" if parameter.style == "label" else text


def query_pairs(parameter: Parameter, value: Any) -> list[str]:
    """A query parameter's value as `name=value` texts, percent-encoded. Raises `ToolArgumentsError` for a value
    that the style cannot write."""
    name, reserved = _quoted(parameter.name), parameter.allow_reserved
    if parameter.as_json:
        return [f"{name}={_quoted(_json(value), reserved)}"]
    pairs = _pairs(value, parameter, reserved)
    delimiter = _DELIMITERS.get(parameter.style)
    if parameter.style == "deepObject" and pairs is not None:
        return list(_deep(name, value, parameter))
    if parameter.explode or (delimiter is None and pairs is None and not isinstance(value, list)):
        if pairs is not None:
            return [f"{k}={v}" for k, v in pairs]
        return [f"{name}={item}" for item in _items(value, parameter, reserved)]
    if delimiter is not None:
        if any(delimiter in text for text in _texts(value)):
            raise ToolArgumentsError(
                f"{parameter.label} may not have {delimiter!r} in a value: it stands between them."
            )
        joint = quote(delimiter)
    else:
        joint = ","
    inner = _flat(pairs, joint) if pairs is not None else joint.join(_items(value, parameter, reserved, comma=False))
    return [f"{name}={inner}"] if inner or not isinstance(value, (list, dict)) else []


def header_text(parameter: Parameter, value: Any) -> str:
    """A header parameter's value. Raises `ToolArgumentsError` for one that would be more than one line."""
    if parameter.as_json:
        return _json(value, ascii_only=True)
    if isinstance(value, dict):
        held = cast(dict[str, Any], value)
        known = [(k, _plain(v, parameter)) for k, v in held.items() if v is not None]
        text = ",".join(f"{k}={v}" if parameter.explode else f"{k},{v}" for k, v in known)
    elif isinstance(value, list):
        text = ",".join(_plain(each, parameter) for each in cast(list[Any], value) if each is not None)
    else:
        text = _plain(value, parameter)
    text = text.strip(" \t")
    if _UNSENDABLE.search(text):
        raise ToolArgumentsError(f"{parameter.label} has a line end or a control character, which no header can hold.")
    return text


def cookie_pairs(parameter: Parameter, value: Any) -> list[str]:
    """A cookie parameter's value as `name=value` texts, percent-encoded."""
    name = _quoted(parameter.name)
    if parameter.as_json:
        return [f"{name}={_quoted(_json(value))}"]
    pairs = _pairs(value, parameter)
    if pairs is not None:
        return [f"{k}={v}" for k, v in pairs] if parameter.explode else [f"{name}={_flat(pairs, ',')}"]
    return [f"{name}={','.join(_items(value, parameter))}"]


def plain_text(value: Any, *, integral: bool = False) -> str:
    """A value that is neither a list nor an object, as text: `true`, `2`, `a`; others as JSON."""
    if isinstance(value, str):
        return value
    if integral and isinstance(value, float) and value.is_integer():
        return str(int(value))
    return _json(value)


def _json(value: Any, *, ascii_only: bool = False) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))


def _plain(value: Any, parameter: Parameter) -> str:
    return plain_text(value, integral=parameter.integral)


def _quoted(text: str, reserved: bool = False, *, comma: bool = True) -> str:
    if not reserved:
        return quote(text, safe="", errors="replace")
    safe = _RESERVED if comma else _RESERVED.replace(",", "")
    pieces = _TRIPLET.split(text)
    return "".join(piece if at % 2 else quote(piece, safe=safe, errors="replace") for at, piece in enumerate(pieces))


def _items(value: Any, parameter: Parameter, reserved: bool = False, *, comma: bool = True) -> list[str]:
    """The values of a list, or the one of anything else, encoded."""
    listed = cast(list[Any], value) if isinstance(value, list) else [value]
    return [_quoted(_plain(each, parameter), reserved, comma=comma) for each in listed if each is not None]


def _pairs(value: Any, parameter: Parameter, reserved: bool = False) -> list[tuple[str, str]] | None:
    """The names and values of an object, encoded; None for anything else."""
    if not isinstance(value, dict):
        return None
    held = cast(dict[str, Any], value)
    return [
        (_quoted(key), _quoted(_plain(each, parameter), reserved, comma=False))
        for key, each in held.items()
        if each is not None
    ]


def _flat(pairs: Iterable[tuple[str, str]], joint: str) -> str:
    return joint.join(joint.join(pair) for pair in pairs)


def _deep(name: str, value: Mapping[str, Any], parameter: Parameter) -> Iterable[str]:
    """`name[key]=value`, of objects in objects with more brackets; a list repeats its name."""
    for key, each in value.items():
        inner = f"{name}%5B{_quoted(key)}%5D"
        if isinstance(each, dict):
            yield from _deep(inner, cast(dict[str, Any], each), parameter)
        else:
            yield from (f"{inner}={item}" for item in _items(each, parameter, parameter.allow_reserved))


def _texts(value: Any) -> list[str]:
    """All texts in a value."""
    if isinstance(value, dict):
        held = cast(dict[str, Any], value)
        return [*held, *(text for each in held.values() for text in _texts(each))]
    if isinstance(value, list):
        return [text for each in cast(list[Any], value) for text in _texts(each)]
    return [value] if isinstance(value, str) else []
