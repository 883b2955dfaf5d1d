"""The legacy form of events: `{"type": ..., "data": ...}` objects, one for each thing that an event holds.

Each object made here carries, under `event` in its data, what belongs to the event as a whole, and `more` if another
object of the same event follows. Objects without it are events of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, cast

from flowloom.errors import EventParseError
from flowloom.events.event import Event
from flowloom.events.parts import as_object
from flowloom.interop.parsed import ParsedEvent, done_event, error_event, is_canonical, parse_object
from flowloom.objects.given import is_several


class LegacyEvent(TypedDict):
    """One object of the legacy form."""

    type: str
    data: Any


_NEEDED: dict[str, str | None] = {
    "message": "text",
    "delta": "text",
    "thought": "text",
    "tool_call": None,
    "tool_result": None,
    "transfer": "agent",
    "sources": "sources",
    "error": None,
    "done": None,
    "metadata": "fields",
    "part": "part",
}
"""The types, and the field that the data of each cannot do without."""
_TEXTS = {"message": "text", "delta": "text", "thought": "text", "error": "message"}
"""Types whose data may be a text alone, and the field that it stands for."""
_ENVELOPE = ("id", "author", "invocationId", "timestamp", "branch")
_EMPTY_ACTIONS = ("stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations")
_DEFAULT_AUTHOR = "agent"


def is_legacy(data: dict[str, Any]) -> bool:
    """Whether an object is of the legacy form."""
    kind: Any = data.get("type") if isinstance(data, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    return isinstance(kind, str) and ("data" in data or kind == "done") and not is_canonical(data)


# -- canonical to legacy ---------------------------------------------------------------------------


def to_legacy(parsed: ParsedEvent | Event, *, full: bool = True) -> list[LegacyEvent]:
    """The legacy objects of the event `parsed`.

    In `full`, `from_legacy` makes the same event of them. Otherwise they are what older clients show, and no more: ids,
    times, branches, usage, state, parts that are neither text nor calls, signatures and all else are left out.

    Raises `InputValidationError` for what is no event.
    """
    event = parsed if isinstance(parsed, ParsedEvent) else ParsedEvent(parsed)
    if event.kind == "done":
        return [{"type": "done", "data": {}}]
    if event.kind == "error" and event.error is not None:
        error = event.error
        said: dict[str, Any] = {"message": str(error), "code": error.code, "details": error.details}
        return [{"type": "error", "data": {key: value for key, value in said.items() if value}}]
    rest = event.event.to_wire()
    envelope = {name: rest.pop(name) for name in _ENVELOPE if name in rest}
    if rest.get("partial") is True:
        envelope["partial"] = rest.pop("partial")
    objects = _content_objects(rest, envelope)
    objects += _action_objects(rest)
    objects += _source_objects(rest, event)
    if "errorCode" in rest or "errorMessage" in rest:
        error_data = {"code": rest.pop("errorCode", None), "message": rest.pop("errorMessage", None)}
        objects.append(
            {"type": "error", "data": {key: value for key, value in error_data.items() if value is not None}}
        )
    if not full:
        return _bare(objects, envelope["author"], rest)
    if rest or not objects:
        objects.append({"type": "metadata", "data": {"fields": rest}})
    for each in objects[:-1]:
        each["data"]["event"] = {**envelope, "more": True}
    objects[-1]["data"]["event"] = envelope
    return objects


def _content_objects(rest: dict[str, Any], envelope: dict[str, Any]) -> list[LegacyEvent]:
    """An object for each part. What else the content has stays in `rest`."""
    content: dict[str, Any] | None = rest.get("content")
    if content is None:
        return []
    parts: list[dict[str, Any]] = content.pop("parts") if content.get("parts") else []
    if parts and content.keys() <= {"role"}:
        del rest["content"]
        if content.get("role") != "model":
            envelope["role"] = content.get("role")
    return [_part_object(part, partial="partial" in envelope) for part in parts]


def _part_object(part: dict[str, Any], *, partial: bool) -> LegacyEvent:
    kind, data = "part", {"part": part}
    keys = part.keys() - {"thoughtSignature"}
    if keys == {"text"}:
        kind, data = ("delta" if partial else "message"), {"text": part["text"]}
    elif keys == {"text", "thought"} and part["thought"] is True:
        kind, data = "thought", {"text": part["text"]}
    elif keys == {"functionCall"} and part["functionCall"].keys() <= {"id", "name", "args"}:
        kind, data = "tool_call", dict(part["functionCall"])
    elif keys == {"functionResponse"} and part["functionResponse"].keys() <= {"id", "name", "response"}:
        answer = part["functionResponse"]
        kind, data = "tool_result", {("result" if key == "response" else key): answer[key] for key in answer}
    if kind != "part" and "thoughtSignature" in part:
        data["signature"] = part["thoughtSignature"]
    return {"type": kind, "data": data}


def _action_objects(rest: dict[str, Any]) -> list[LegacyEvent]:
    actions: dict[str, Any] = rest.pop("actions", {})
    for name in _EMPTY_ACTIONS:
        if actions.get(name) == {}:
            del actions[name]
    objects: list[LegacyEvent] = []
    if "transferToAgent" in actions:
        objects.append({"type": "transfer", "data": {"agent": actions.pop("transferToAgent")}})
    if actions:
        rest["actions"] = actions
    return objects


def _source_objects(rest: dict[str, Any], event: ParsedEvent) -> list[LegacyEvent]:
    if not event.sources:
        return []
    shown = [{"url": source.url, "title": source.title} for source in event.sources]
    if "urlContextMetadata" not in rest and rest.get("groundingMetadata") == _grounding(shown):
        del rest["groundingMetadata"]
    return [{"type": "sources", "data": {"sources": shown}}]


def _grounding(sources: list[dict[str, str]]) -> dict[str, Any]:
    return {"groundingChunks": [{"web": {"title": each["title"], "uri": each["url"]}} for each in sources]}


def _bare(objects: list[LegacyEvent], author: str, rest: dict[str, Any]) -> list[LegacyEvent]:
    unknown = _unknown_object(rest)
    shown = [each for each in objects if each["type"] != "part"]
    for each in shown:
        each["data"].pop("signature", None)
        if author != _DEFAULT_AUTHOR and each["type"] != "error":
            each["data"]["author"] = author
    return shown if unknown is None else [*shown, unknown]


def _unknown_object(rest: dict[str, Any]) -> LegacyEvent | None:
    """The object of a type that is not known here, which the event was made of."""
    metadata: dict[str, Any] = rest.get("customMetadata", {})
    kept: Any = metadata.get("legacy")
    if not isinstance(kept, dict):
        return None
    fields = cast(dict[str, Any], kept)
    return {"type": str(fields["type"]), "data": fields["data"]} if fields.keys() == {"type", "data"} else None


# -- legacy to canonical ---------------------------------------------------------------------------


def from_legacy(
    objects: Iterable[dict[str, Any]], *, validate: bool = False, strict: bool = False
) -> list[ParsedEvent]:
    """The events of legacy `objects`. `validate` and `strict` mean what they mean for `parse_event_sse`.

    Raises `EventParseError` for what is no object of the legacy form.
    """
    if not is_several(objects):
        raise EventParseError(
            f'`from_legacy` reads a list of objects with a "type" and "data". It was given a {type(objects).__name__}.'
        )
    reader = LegacyReader(validate=validate, strict=strict)
    events = [event for each in objects for event in reader.feed(each)]
    return events + reader.close()


class LegacyReader:
    """Puts events together from legacy objects, one after another."""

    def __init__(self, *, validate: bool = False, strict: bool = False) -> None:
        self._validate = validate
        self._strict = strict
        self._pending: list[tuple[str, dict[str, Any]]] = []
        self._envelope: dict[str, Any] = {}

    def feed(self, given: dict[str, Any]) -> list[ParsedEvent]:
        """The events that this object completes. Raises `EventParseError` if it is none of the legacy form."""
        if not is_legacy(given):
            raise EventParseError('An object of the legacy form has a "type" and "data".')
        kind, data = _known(given)
        found: Any = data.pop("event", None) if kind not in ("", "done") else None  # those are of no other event
        envelope = cast(dict[str, Any], found) if isinstance(found, dict) else {}
        events: list[ParsedEvent] = []
        if not envelope or envelope.get("id") != self._envelope.get("id"):
            events = self.close()
        if not envelope:
            return [*events, self._alone(kind, data, given)]
        self._pending.append((kind, data))
        self._envelope = envelope
        return events if envelope.get("more") is True else events + self.close()

    def close(self) -> list[ParsedEvent]:
        """The event whose last objects did not come."""
        if not self._pending:
            return []
        pending, self._pending = self._pending, []
        return [self._parse(_canonical(pending, self._envelope))]

    def _alone(self, kind: str, data: dict[str, Any], given: dict[str, Any]) -> ParsedEvent:
        """The event of an object that belongs to no other."""
        if kind == "done":
            return done_event()
        if kind == "error":
            return error_event(data)
        author: Any = data.pop("author", _DEFAULT_AUTHOR)
        envelope: dict[str, Any] = {"author": author}
        if kind == "delta":
            envelope["partial"] = True
        if kind == "tool_result":
            envelope["role"] = "user"
        if not kind:
            kept = {"type": given["type"], "data": given.get("data")}
            return self._parse({**envelope, "customMetadata": {"legacy": kept}})
        return self._parse(_canonical([(kind, data)], envelope))

    def _parse(self, data: dict[str, Any]) -> ParsedEvent:
        return parse_object(data, validate=self._validate, strict=self._strict)


def _canonical(objects: list[tuple[str, dict[str, Any]]], envelope: dict[str, Any]) -> dict[str, Any]:
    """The JSON of the event that legacy objects make up."""
    event: dict[str, Any] = {name: value for name, value in envelope.items() if name not in ("more", "role")}
    parts: list[Any] = []
    fields: dict[str, Any] = {}
    transfer: Any = None
    for kind, data in objects:
        if kind == "transfer":
            transfer = data["agent"]
        elif kind == "sources":
            event["groundingMetadata"] = _grounding(_read_sources(data))
        elif kind == "error":
            event.update({name: data[key] for name, key in _ERROR_FIELDS if key in data})
        elif kind == "metadata":
            found: Any = data["fields"]
            fields = cast(dict[str, Any], found) if isinstance(found, dict) else {}
        else:
            parts.append(_part_of(kind, data))
    if "urlContextMetadata" in fields:  # which the sources are of; grounding stands beside it, if there was any
        event.pop("groundingMetadata", None)
    event.update(fields)
    if transfer is not None:
        given: Any = event.get("actions")
        event["actions"] = {
            **(cast(dict[str, Any], given) if isinstance(given, dict) else {}),
            "transferToAgent": transfer,
        }
    if parts:
        content: Any = event.get("content")
        around = cast(dict[str, Any], content) if isinstance(content, dict) else {"role": envelope.get("role", "model")}
        event["content"] = {**around, "parts": parts}
    return event


_ERROR_FIELDS = (("errorCode", "code"), ("errorMessage", "message"))


def _part_of(kind: str, data: dict[str, Any]) -> Any:
    if kind == "part":
        return data["part"]
    part: dict[str, Any] = {"thoughtSignature": data["signature"]} if "signature" in data else {}
    if kind == "tool_call":
        return {**part, "functionCall": {key: data[key] for key in ("id", "name", "args") if key in data}}
    if kind == "tool_result":
        answer = {key: data[key] for key in ("id", "name") if key in data}
        if "result" in data:
            answer["response"] = as_object(data["result"], "result")
        return {**part, "functionResponse": answer}
    part["text"] = data["text"]
    if kind == "thought":
        part["thought"] = True
    return part


def _read_sources(data: dict[str, Any]) -> list[dict[str, str]]:
    given: Any = data["sources"]
    found: list[dict[str, str]] = []
    for each in cast(list[Any], given) if isinstance(given, list) else []:
        fields = cast(dict[str, Any], each) if isinstance(each, dict) else {}
        url, title = fields.get("url"), fields.get("title")
        if isinstance(url, str):
            found.append({"url": url, "title": title if isinstance(title, str) else url})
    return found


def _known(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type and data of an object; without a type if it is none that is known, or lacks what that type needs."""
    kind: str = given["type"]
    data: Any = given.get("data")
    if isinstance(data, str) and kind in _TEXTS:
        return kind, {_TEXTS[kind]: data}
    fields = dict(cast(dict[str, Any], data)) if isinstance(data, dict) else {}
    needed = _NEEDED.get(kind)
    known = kind in _NEEDED and (needed is None or needed in fields)
    return kind if known else "", fields
