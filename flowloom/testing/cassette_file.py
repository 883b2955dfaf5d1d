"""The file of a cassette: one model call a line, in JSON.

A line has these fields, in this order: `digest` (a name for the request, for people), `model`, `stream`, `request` (the
data of its `RequestView`), `responses` (all of them, in their wire form), and `error` if the call ended in one. It is
the request itself that is compared, so a line may be edited by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast
from weakref import WeakValueDictionary

from pydantic import ValidationError

from flowloom.errors import FlowloomError, ModelError
from flowloom.inspection import RequestView
from flowloom.inspection.canonical import Data
from flowloom.models import LlmRequest, LlmResponse
from flowloom.testing.secrets import MARK, Secrets

# Written as escapes: halves of characters, which UTF-8 cannot hold, and what some editors take for the end of a line.
_ESCAPED = re.compile("[\ud800-\udfff\u0085\u2028\u2029]")
_SCALAR = r'(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)'
_IN_STRING = r'(?:[^"\\]|\\.)*?'
_SIMPLE = (str, int, float, type(None))


class CassetteError(FlowloomError, ValueError):
    """A cassette cannot be read. Attributes: `path`, `line` (1-based, or None)."""

    def __init__(self, message: str, *, path: Path, line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


@dataclass(frozen=True)
class Asked:
    """A request as a cassette knows it."""

    raw: str
    """The data of its view, in JSON on one line."""
    request: dict[str, Data]
    """The same without secrets."""

    @classmethod
    def of(cls, request: LlmRequest, secrets: Secrets) -> Self:
        raw = compact(RequestView(request).data)
        data = json.loads(raw)
        for content in (data["config"].get("system_instruction"), *data["contents"]):
            if isinstance(content, dict):
                _join_texts(secrets, [cast(dict[str, Data], content)])
        return cls(raw, secrets.redact(data))

    @cached_property
    def key(self) -> str:
        return compact(self.request)

    @property
    def digest(self) -> str:
        """As `RequestView.digest`, of the request without secrets."""
        return hashlib.sha256(self.key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass
class Entry:
    """A recorded call."""

    model: str
    stream: bool
    request: dict[str, Data]
    responses: list[dict[str, Data]]
    error: dict[str, Data] | None = None
    line: int = 0
    """Where it is in the file; 0 for a call that is being recorded."""
    played: bool = field(default=False, compare=False)

    @cached_property
    def key(self) -> str:
        return compact(self.request)

    def fits(self, asked: Asked) -> bool:
        """Whether a request is the recorded one where that had secrets: anything may stand in their place."""
        if self.key == asked.raw:  # what is a secret here was none where it was recorded
            return True
        return self._pattern is not None and self._pattern.fullmatch(asked.raw) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        if not MARK.search(self.key):
            return None
        escaped, at = "", 0
        for mark in re.finditer(rf'"{MARK.pattern}"|{MARK.pattern}', self.key):
            escaped += re.escape(self.key[at : mark.start()]) + (_SCALAR if mark[0].startswith('"') else _IN_STRING)
            at = mark.end()
        return re.compile(escaped + re.escape(self.key[at:]))

    def play(self, stream: bool) -> Iterator[LlmResponse]:
        """The responses: all of them in the way it was recorded, else the complete ones. Then the error is raised."""
        for response in self.responses:
            if stream == self.stream or not response.get("partial"):
                yield LlmResponse.model_validate(response)
        if self.error is not None:
            raise _read_error(self.error)

    def written(self, digest: str, secrets: Secrets) -> str:
        """The line for the file."""
        _join_texts(secrets, [each["content"] for each in self.responses if each.get("partial") and "content" in each])
        for response in self.responses:
            if not response.get("partial") and "content" in response:
                _join_texts(secrets, [response["content"]])
        self.responses = secrets.redact(self.responses)
        self.error = secrets.redact(self.error)
        fields: dict[str, Any] = {"digest": digest, "model": secrets.redact(self.model), "stream": self.stream}
        fields |= {"request": self.request, "responses": self.responses}
        if self.error is not None:
            fields["error"] = self.error
        return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(fields, ensure_ascii=False)) + "\n"


def compact(data: Data) -> str:
    """JSON as `RequestView.json` has it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def error_data(error: ModelError) -> dict[str, Data]:
    """An error as data: its class, its text, and its fields, as far as JSON holds them."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == ModelError.__module__ else f"{kind.__module__}.{kind.__qualname__}"
    simple = {name: value for name, value in vars(error).items() if isinstance(value, _SIMPLE)}
    return {"type": name, "message": str(error), "fields": dict(sorted(simple.items()))}


def _read_error(data: dict[str, Data]) -> ModelError:
    kind = _error_class(data["type"])
    error = kind.__new__(kind)
    error.args = (data["message"],)
    vars(error).update(data["fields"])
    return error


def _error_class(name: str) -> type[ModelError]:
    """A class of model errors that has been loaded; nothing is imported because a file says so."""
    classes: list[type[ModelError]] = [ModelError]
    for each in classes:
        if name in (f"{each.__module__}.{each.__qualname__}", each.__qualname__):
            return each
        classes += each.__subclasses__()
    raise ValueError(f"`{name}` is no class of model errors that is loaded here; import it before.")


def _join_texts(secrets: Secrets, contents: list[dict[str, Data]]) -> None:
    """Take out, in place, the secrets that are spread over the parts of these contents."""
    pieces: dict[tuple[Any, ...], list[tuple[dict[str, Data], str]]] = {}
    for content in contents:
        parts: list[dict[str, Data]] = content.get("parts") or []
        for part in parts:
            if isinstance(part.get("text"), str):
                pieces.setdefault(("text", part.get("thought")), []).append((part, "text"))
            call: dict[str, Data] = part.get("functionCall") or {}
            args: list[dict[str, Data]] = call.get("partialArgs") or []
            for arg in args:
                if isinstance(arg.get("stringValue"), str):
                    pieces.setdefault(("arg", arg.get("jsonPath")), []).append((arg, "stringValue"))
    for places in pieces.values():
        if len(places) > 1:
            texts = secrets.redact_pieces([owner[name] for owner, name in places])
            for (owner, name), text in zip(places, texts, strict=True):
                owner[name] = text


class CassetteFile:
    """A file of recorded calls; one object for all models of this process that use it."""

    _known: ClassVar[WeakValueDictionary[str, CassetteFile]] = WeakValueDictionary()
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        self._written: list[str] = []
        """What this process wrote; empty texts for what was replaced since."""

    @classmethod
    def at(cls, path: Path) -> CassetteFile:
        """The file at a path."""
        place = os.path.realpath(path)
        with cls._opening:
            found = cls._known.get(place)
            if found is None:
                found = cls._known[place] = cls(Path(place))
            return found

    @property
    def position(self) -> int:
        """How much was written so far, for `replace`."""
        return len(self._written)

    def has_since(self, position: int) -> bool:
        """Whether something that was written since is there."""
        return any(self._written[position:])

    def read(self) -> list[Entry]:
        """The recorded calls, none if there is no file. Raises `CassetteError` for a line that is none."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CassetteError(f"The cassette {self.path} cannot be read: {error}", path=self.path) from error
        return [self._entry(line, number) for number, line in enumerate(lines, 1) if line.strip()]

    def _entry(self, line: bytes, number: int) -> Entry:
        try:
            return _read_entry(json.loads(line), number)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            reason = "it is no recorded call" if isinstance(error, ValidationError | LookupError) else str(error)
            raise CassetteError(
                f"Line {number} of the cassette {self.path} is damaged: {reason}. Restore it, or take it out and "
                f'record that call again with `mode="record"`.',
                path=self.path,
                line=number,
            ) from error

    def append(self, line: str) -> None:
        """Write a line at the end."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line_before = file.read(1)
                file.write(line.encode() if line_before == b"\n" else b"\n" + line.encode())
            else:
                file.write(line.encode())
        self._written.append(line)

    def replace(self, position: int, lines: list[str]) -> None:
        """Write the file anew: what this process wrote since `position`, and these lines."""
        kept = self._written[position:]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            beside.write_bytes("".join([*kept, *lines]).encode())
            os.replace(beside, self.path)
        finally:
            beside.unlink(missing_ok=True)
        self._written = [*("" for _ in range(position)), *kept, *lines]


def _read_entry(data: Any, line: int) -> Entry:
    if not isinstance(data, dict):
        raise TypeError("it is no JSON object")
    fields = cast(dict[str, Any], data)
    error: Any = fields.get("error")
    entry = Entry(fields["model"], fields["stream"], fields["request"], fields["responses"], error, line)
    if not (isinstance(entry.stream, bool) and isinstance(entry.responses, list)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("`stream` must be true or false, `responses` a list")
    for response in entry.responses:
        LlmResponse.model_validate(response)
    if not (isinstance(entry.request["config"], dict) and isinstance(entry.request["contents"], list)):
        raise TypeError("`request` must have a `config` and `contents`")
    if entry.error is not None:
        _read_error(entry.error)
    return entry
