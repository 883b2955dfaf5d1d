"""The legacy form of events: `{"type": ..., "data": ...}` objects, one for each thing that an event holds.

Each object made here carries, under `event` in its data, what belongs to the event as a whole, and `more` if another
object of the same event follows. Objects of older servers have none of this: each is an event of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypedDict, cast

from flowloom.errors import EventParseError
from flowloom.events.event import Event
from flowloom.events.parsed import ParsedEvent, done_event, error_event, is_canonical, parse_object
from flowloom.events.parts import as_object


class LegacyEvent(TypedDict):
    """One object of the legacy form."""

    type: str
    data: Any


_ALIASES = {
    "message": "message text content assistant_message response",
    "delta": "delta text_delta message_delta token chunk",
    "thought": "thought thinking reasoning",
    "tool_call": "tool_call function_call tool_use tool_start",
    "tool_result": "tool_result function_response tool_response tool_output tool_end",
    "transfer": "transfer agent_transfer handoff",
    "sources": "sources citations grounding",
    "error": "error",
    "done": "done end complete finished",
    "metadata": "metadata usage",
    "part": "part",
    "event": "event raw",
}
_TYPES = {alias: kind for kind, aliases in _ALIASES.items() for alias in aliases.split()}
_ENVELOPE = ("id", "author", "invocationId", "timestamp", "branch")
_EMPTY_ACTIONS = ("stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations")
_DEFAULT_AUTHOR = "agent"


def is_legacy(data: dict[str, Any]) -> bool:
    """Whether an object is of the legacy form."""
    kind: Any = data.get("type")
    return isinstance(kind, str) and ("data" in data or kind in _TYPES) and not is_canonical(data)


# -- canonical to legacy ---------------------------------------------------------------------------


def to_legacy(parsed: ParsedEvent | Event, *, full: bool = True) -> list[LegacyEvent]:
    """The legacy objects of an event.

    In full, `from_legacy` makes the same event of them. Otherwise they are what older clients show, and no more:
    ids, times, branches, usage, state, parts that are neither text nor calls, signatures and all else are left out.
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
    if rest.get("groundingMetadata") == _grounding(shown):
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
    """The events of legacy objects. Raises `EventParseError` for what is none."""
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
        kind = _TYPES.get(given["type"], "")
        data = _data_of(kind, given)
        found: Any = None if kind == "event" else data.pop("event", None)
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
        if kind == "event":
            inner: Any = data.get("event", data)
            return self._parse(cast(dict[str, Any], inner) if isinstance(inner, dict) else {})
        author: Any = data.pop("author", _DEFAULT_AUTHOR)
        envelope: dict[str, Any] = {"author": author}
        if kind == "delta" or data.pop("partial", None) is True:
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
            transfer = _first(data, "agent", "agent_name", "to", "target")
        elif kind == "sources":
            event["groundingMetadata"] = _grounding(_read_sources(data))
        elif kind == "error":
            event.update({name: data[key] for name, key in _ERROR_FIELDS if key in data})
        elif kind == "metadata":
            found: Any = data.get("fields", data)
            fields = cast(dict[str, Any], found) if isinstance(found, dict) else {}
        else:
            parts.append(_part_of(kind, data))
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
        return data.get("part", data)
    part: dict[str, Any] = {}
    if "signature" in data:
        part["thoughtSignature"] = data["signature"]
    if kind == "tool_call":
        call = _named(data)
        args: Any = _first(data, "args", "arguments", "input", "parameters")
        if args is not None:
            call["args"] = _arguments(args)
        return {**part, "functionCall": call}
    if kind == "tool_result":
        answer = _named(data)
        result: Any = _first(data, "result", "response", "output", "content")
        if result is not None:
            answer["response"] = as_object(result, "result")
        return {**part, "functionResponse": answer}
    part["text"] = _first(data, "text", "content", "delta", "message")
    if kind == "thought":
        part["thought"] = True
    return part


def _named(data: dict[str, Any]) -> dict[str, Any]:
    """Id and name of a call or a result."""
    found = {
        "id": _first(data, "id", "call_id", "tool_call_id"),
        "name": _first(data, "name", "tool", "tool_name"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _arguments(given: Any) -> Any:
    """Arguments may come as JSON text; text that is not JSON of an object is kept under `arguments`."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {"arguments": given}
    return as_object(given, "arguments")


def _read_sources(data: dict[str, Any]) -> list[dict[str, str]]:
    given: Any = _first(data, "sources", "citations", "items")
    found: list[dict[str, str]] = []
    for each in cast(list[Any], given) if isinstance(given, list) else []:
        fields = cast(dict[str, Any], each) if isinstance(each, dict) else {"url": each}
        url: Any = _first(fields, "url", "uri", "link")
        title: Any = _first(fields, "title", "name")
        if isinstance(url, str):
            found.append({"url": url, "title": title if isinstance(title, str) else url})
    return found


def _data_of(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The data as an object: older servers also write a text or a list, or leave the fields beside the type."""
    data: Any = given.get("data", {key: value for key, value in given.items() if key != "type"})
    if isinstance(data, dict):
        return dict(cast(dict[str, Any], data))
    if isinstance(data, list) and kind == "sources":
        return {"sources": data}
    if data is None:
        return {}
    return {"message": data} if kind == "error" else {"text": data}


def _first(data: dict[str, Any], *names: str) -> Any:
    return next((data[name] for name in names if data.get(name) is not None), None)
