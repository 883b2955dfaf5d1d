"""`PartialArgs`: function-call arguments that arrive leaf by leaf, each with a JSON path (spec §16.5).

Paths are the singular ones of RFC 9535: `$.a.b`, `items[0].x`, `$['a.b']["c"]`; the leading `$` may be missing.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, cast

from google.genai import types

from flowloom.errors import ModelResponseError
from flowloom.events.json_data import MAX_DEPTH, UNREADABLE, as_json, json_arguments

MAX_GAP = 1_000
"""How far past the end of a list an index may point; the items between become null."""

_STEP = re.compile(
    r"""\.? \[ \s* (?: (?P<index>\d+) | '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" ) \s* \]
      | \.? (?P<name>[^.\[\]]+)""",
    re.VERBOSE | re.DOTALL,
)

_Key = str | int


class _Text:
    """A string that still grows. Joined once, at the end, so that its cost is linear in its length."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []


class PartialArgs:
    """Collects `PartialArg`s; `result()` gives the arguments so far as plain, independent data.

    Text that arrives for a path that holds text is appended to it; any other value replaces what is there.
    """

    __slots__ = ("_last_path", "_last_text", "_misfit", "_root", "_root_text")

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._root_text = _Text()
        # The leaf that was written last: a long text streams to one path, in many pieces.
        self._last_path: str | None = None
        self._last_text = self._root_text
        # What is wrong with a piece that could not be written.
        self._misfit: str | None = None

    def merge(self, args: dict[str, Any]) -> None:
        """Set whole arguments by name. `args` is not kept, nor anything mutable in it."""
        self._last_path = None
        self._root.update(cast(dict[str, Any], _own(json_arguments(args))))

    def apply(self, partial: types.PartialArg) -> None:
        """Write one leaf. An entry without a path or without a value is ignored.

        Raises `ModelResponseError` for a path deeper than `MAX_DEPTH`, or an index `MAX_GAP` past a list's end; who
        goes on gets what is wrong in the place of the arguments, under `$`.
        """
        path = partial.json_path
        if not path:
            return
        try:
            self._write(path, partial)
        except ModelResponseError as error:
            self._misfit = str(error)
            raise

    def _write(self, path: str, partial: types.PartialArg) -> None:
        text = partial.string_value
        if text is not None:
            if path != self._last_path:
                self._last_text = self._text_at(path)
                self._last_path = path
            self._last_text.pieces.append(text)
            return
        if partial.number_value is not None:
            value: float | int | bool | None = _number(partial.number_value)
        elif partial.bool_value is not None:
            value = partial.bool_value
        elif partial.null_value is not None:
            value = None
        else:
            return
        self._last_path = None
        steps = parse_path(path)
        if steps:
            container, key = self._container_of(steps)
            _put(container, key, value)

    def result(self) -> dict[str, Any]:
        """The arguments as new dicts and lists. May be called while more is to come."""
        if self._misfit is not None:
            return {UNREADABLE: self._misfit}
        args = cast(dict[str, Any], _own(self._root))
        if not self._root_text.pieces:
            return args
        # Text for the root itself can only be the arguments written out as JSON.
        return arguments_of("".join(self._root_text.pieces)) | args

    def _text_at(self, path: str) -> _Text:
        steps = parse_path(path)
        if not steps:
            return self._root_text
        container, key = self._container_of(steps)
        found = _get(container, key)
        if isinstance(found, _Text):
            return found
        text = _Text()
        if isinstance(found, str):
            text.pieces.append(found)
        _put(container, key, text)
        return text

    def _container_of(self, steps: tuple[_Key, ...]) -> tuple[dict[str, Any] | list[Any], _Key]:
        """The dict or list that holds the leaf, and the leaf's key. What stands in the way is replaced."""
        container: dict[str, Any] | list[Any] = self._root
        key = steps[0]
        for step in steps[1:]:
            wanted = list if isinstance(step, int) else dict
            child = _get(container, key)
            if not isinstance(child, wanted):
                child = cast("dict[str, Any] | list[Any]", wanted())
                _put(container, key, child)
            container = cast("dict[str, Any] | list[Any]", child)
            key = step
        return container, key


def arguments_of(text: str | None) -> dict[str, Any]:
    """Arguments out of the JSON text that a model wrote; what is no JSON object that can be kept stands as it came,
    under `$`."""
    if not text or text.isspace():
        return {}
    try:
        written: Any = json.loads(text)
        return cast(dict[str, Any], as_json(written)) if isinstance(written, dict) else {UNREADABLE: text}
    except (ValueError, RecursionError):
        return {UNREADABLE: text}


@functools.lru_cache(maxsize=256)
def parse_path(path: str) -> tuple[_Key, ...]:
    """The keys (text) and indices (numbers) that a JSON path leads through; none for the root `$`.

    What cannot be read as a step is taken as a key, as it is written. Raises `ModelResponseError` for a path
    deeper than `MAX_DEPTH`.
    """
    position = 1 if path == "$" or path.startswith(("$.", "$[")) else 0
    steps: list[_Key] = []
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            steps.append(path[position:])
            break
        position = match.end()
        index, single, double, name = match.group("index", "single", "double", "name")
        if index is not None:
            steps.append(int(index) if len(index) < 10 else index)
        elif name is not None:
            steps.append(name)
        else:
            steps.append(_unquoted(single, double))
    if len(steps) > MAX_DEPTH:
        raise ModelResponseError(f"The model wrote an argument {len(steps)} levels deep; {MAX_DEPTH} are allowed.")
    return tuple(steps)


def _unquoted(single: str | None, double: str | None) -> str:
    """The key behind a quoted step, by the rules of JSON strings."""
    if single is not None:
        raw = single
        # To JSON's form: \' is a plain quote there, and a plain " must be escaped.
        body = re.sub(r"\\.|\"", lambda m: {"\\'": "'", '"': '\\"'}.get(m[0], m[0]), single, flags=re.DOTALL)
    else:
        raw = body = double or ""
    try:
        return cast(str, json.loads(f'"{body}"', strict=False))
    except ValueError:
        return raw


def _get(container: dict[str, Any] | list[Any], key: _Key) -> Any:
    if isinstance(container, list):
        return container[key] if isinstance(key, int) and key < len(container) else None
    return container.get(str(key))


def _put(container: dict[str, Any] | list[Any], key: _Key, value: Any) -> None:
    if not isinstance(container, list):
        container[str(key)] = value
        return
    index = cast(int, key)
    missing = index - len(container)
    if missing > MAX_GAP:
        raise ModelResponseError(
            f"The model wrote item {index} of a list of {len(container)}; at most {MAX_GAP} may be skipped."
        )
    if missing >= 0:
        container.extend([None] * (missing + 1))
    container[index] = value


def _own(value: Any) -> Any:
    """`value` with its own dicts and lists, and growing texts as strings."""
    if isinstance(value, _Text):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {key: _own(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_own(item) for item in cast(list[Any], value)]
    return value


def _number(value: float) -> float | int:
    """JSON has one kind of number, the wire field is a float: 3.0 was a 3."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value
