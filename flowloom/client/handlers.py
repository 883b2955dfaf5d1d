"""Event handlers: the canonical and the legacy form of events, read and written."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Literal, cast

from flowloom.errors import ConfigurationError, EventParseError
from flowloom.events.event import Event
from flowloom.events.event_json import read_json
from flowloom.interop.legacy import LegacyReader, is_legacy, to_legacy
from flowloom.interop.parsed import DONE, ParsedEvent, parse_object, parse_payload, warn_of

EventMode = Literal["canonical", "legacy", "auto"]


class EventHandler(ABC):
    """Reads and writes the payloads of a stream of events in one form. Make one for each stream.

    `validate` and `strict` mean what they mean for `parse_event_sse`: nothing is raised unless `strict`.
    """

    mode: EventMode

    def __init__(self, *, validate: bool = False, strict: bool = False) -> None:
        self._validate = validate
        self._strict = strict

    def read(self, payload: str | bytes, name: str = "") -> list[ParsedEvent]:
        """The events that `payload` completes: one, or none; `name` is the event name of its frame."""
        try:
            if not isinstance(payload, str | bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise EventParseError(f"The payload of an event is a text or bytes, not a {type(payload).__name__}.")
            return self._read(payload, name)
        except Exception as error:  # whatever a server writes, its reader goes on
            if self._strict:
                raise
            warn_of(error)
            return []

    def close(self) -> list[ParsedEvent]:
        """What the stream's end left unfinished."""
        if self._strict:
            return self._close()
        try:
            return self._close()
        except Exception as error:  # as in `read`
            warn_of(error)
            return []

    @abstractmethod
    def write(self, event: ParsedEvent | Event) -> list[str]:
        """The payloads that stand for `event`, each to go into a frame of its own."""

    @abstractmethod
    def _read(self, payload: str | bytes, name: str) -> list[ParsedEvent]: ...

    def _close(self) -> list[ParsedEvent]:
        return []


class CanonicalHandler(EventHandler):
    """Events as ADK servers write them: one JSON object for each."""

    mode = "canonical"

    def _read(self, payload: str | bytes, name: str) -> list[ParsedEvent]:
        parsed = parse_payload(payload, name, validate=self._validate, strict=self._strict)
        return [] if parsed is None else [parsed]

    def write(self, event: ParsedEvent | Event) -> list[str]:
        """One payload."""
        parsed = event if isinstance(event, ParsedEvent) else ParsedEvent(event)
        if parsed.kind == "done":
            return [DONE]
        if parsed.kind == "error" and parsed.error is not None:
            error = parsed.error
            said = {"error": str(error), "code": error.code, "error_details": error.details}
            return [_json_of({key: value for key, value in said.items() if value})]
        return [_json_of(parsed.event.to_wire())]


class LegacyHandler(EventHandler):
    """Events as older clients know them: a `{"type", "data"}` object for each thing that an event holds."""

    mode = "legacy"

    def __init__(self, *, validate: bool = False, strict: bool = False) -> None:
        super().__init__(validate=validate, strict=strict)
        self._events = LegacyReader(validate=validate, strict=strict)

    def _read(self, payload: str | bytes, name: str) -> list[ParsedEvent]:
        data = _object_of(payload, name, strict=self._strict)
        if data is not None:
            return self._events.feed(data)
        # an end, an error or nothing, which are the same in both forms; what is no object is refused there
        parsed = parse_payload(payload, name, strict=self._strict)
        return self._events.close() + ([] if parsed is None else [parsed])

    def _close(self) -> list[ParsedEvent]:
        return self._events.close()

    def write(self, event: ParsedEvent | Event) -> list[str]:
        """One payload for each part, and for what else the event holds."""
        return [_json_of(cast(dict[str, Any], each)) for each in to_legacy(event)]


class AutoHandler(EventHandler):
    """Reads both forms, also in one stream. Writes the one that came last; the canonical one before anything came."""

    mode = "auto"

    def __init__(self, *, validate: bool = False, strict: bool = False) -> None:
        super().__init__(validate=validate, strict=strict)
        self._events = LegacyReader(validate=validate, strict=strict)
        self._canonical = CanonicalHandler()
        self._legacy = LegacyHandler()
        self._writer: EventHandler = self._canonical

    def _read(self, payload: str | bytes, name: str) -> list[ParsedEvent]:
        data = _object_of(payload, name, strict=self._strict)
        if data is None:
            parsed = parse_payload(payload, name, strict=self._strict)
            return self._events.close() + ([] if parsed is None else [parsed])
        if is_legacy(data):
            self._writer = self._legacy
            return self._events.feed(data)
        self._writer = self._canonical
        return [*self._events.close(), parse_object(data, validate=self._validate, strict=self._strict)]

    def _close(self) -> list[ParsedEvent]:
        return self._events.close()

    def write(self, event: ParsedEvent | Event) -> list[str]:
        """The payloads in the form that was read last."""
        return self._writer.write(event)


_HANDLERS: dict[str, type[EventHandler]] = {
    "canonical": CanonicalHandler,
    "legacy": LegacyHandler,
    "auto": AutoHandler,
}


def create_event_handler(mode: EventMode = "auto", *, validate: bool = False, strict: bool = False) -> EventHandler:
    """A handler for the events of one stream.

    `mode` is `canonical` for what ADK servers write, `legacy` for `{"type", "data"}` objects, `auto` for both: each
    payload shows which it is. With `validate`, an event with a value of a wrong type is left out; with `strict`, what
    is no event raises `EventParseError` instead of being warned of. Raises `ConfigurationError` for another mode.
    """
    kind = _HANDLERS.get(mode)
    if kind is None:
        raise ConfigurationError(f"There is no event mode `{mode}`; there are `canonical`, `legacy` and `auto`.")
    return kind(validate=validate, strict=strict)


def _object_of(payload: str | bytes, name: str, *, strict: bool) -> dict[str, Any] | None:
    """The JSON object of a payload; None for an error frame, and for what is not an object (`[DONE]`, nothing)."""
    if name == "error":
        return None
    start = payload.lstrip()[:1]
    if start not in ("{", b"{"):
        return None
    data: Any = read_json(payload, strict=strict)
    return cast(dict[str, Any], data)


def _json_of(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
