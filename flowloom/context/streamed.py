"""`Streamed`: what the consumer of a run has seen of answers that are not complete yet."""

from __future__ import annotations

from typing import Any

from flowloom.events.event import Event
from flowloom.events.parts import content_of, text_part
from flowloom.events.wire import shallow_copy
from flowloom.log.marks import AGENT_TOOL_CALL, AGENT_TOOL_PARTIAL

_PLACE = ("invocation_id", "author", "branch", "isolation_scope", "node_info")


class Streamed:
    """The pieces of the answers that are being streamed, by the id of their events.

    An answer that is stopped is kept as far as it was streamed: its text, without thoughts and calls.
    """

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: dict[str, list[Event]] = {}

    def add(self, event: Event) -> None:
        """Take in a partial event."""
        pieces = self._pieces.get(event.id)
        if pieces is None:
            self._pieces[event.id] = [event]
        else:
            pieces.append(event)
        if event.custom_metadata and event.custom_metadata.get(AGENT_TOOL_PARTIAL) is False:
            self.end(event)

    def restart(self, event_id: str) -> None:
        """The answer begins again: what was streamed of it so far is none of it."""
        self._pieces.pop(event_id, None)

    def end(self, event: Event) -> None:
        """A complete event is there: of that answer, or of another one of its speaker."""
        self._pieces.pop(event.id, None)
        if self._pieces and (event.content is not None or event.error_code):
            speaker = speaker_of(event)
            self._pieces = {key: each for key, each in self._pieces.items() if speaker_of(each[0]) != speaker}

    def completed(self, event: Event) -> Event:
        """An event that says in the place of an answer what went wrong, with the text that was streamed."""
        pieces = self._pieces.get(event.id)
        if pieces is None or event.content is not None or not event.error_code:
            return event
        new = shallow_copy(event)
        vars(new).update({name: value for name, value in _text_of(pieces).items() if getattr(event, name) is None})
        return new

    def cut_off(self) -> list[Event]:
        """The events that keep what was streamed of answers that do not go on, by speaker; nothing streams after."""
        pieces, self._pieces = self._pieces, {}
        spoken: dict[tuple[Any, ...], list[Event]] = {}
        for each in pieces.values():
            spoken.setdefault(speaker_of(each[0]), []).extend(each)
        events: list[Event] = []
        for said in spoken.values():
            text = _text_of(said)
            if text:
                place, mark = {name: getattr(said[-1], name) for name in _PLACE}, _mark_of(said[-1])
                if mark is not None:
                    place["isolation_scope"] = place["isolation_scope"] or mark
                    place["custom_metadata"] = {AGENT_TOOL_CALL: mark}
                events.append(Event.unvalidated({"id": said[-1].id, "timestamp": said[-1].timestamp}, place, text))
        return events


def speaker_of(event: Event) -> tuple[Any, ...]:
    """Whose words an event has: the agent, where it stands, and the call for which it runs."""
    return event.author, event.branch, event.isolation_scope, _mark_of(event)


def _mark_of(event: Event) -> Any:
    return event.custom_metadata.get(AGENT_TOOL_CALL) if event.custom_metadata else None


def _text_of(pieces: list[Event]) -> dict[str, Any]:
    """The text of partial events, as fields of the event that keeps it; empty without any."""
    parts = [part for each in pieces for part in (each.content.parts if each.content is not None else None) or ()]
    text = "".join([part.text for part in parts if part.text and not part.thought])
    if not text.strip():
        return {}
    values: dict[str, Any] = {"content": content_of("model", [text_part(text)]), "interrupted": True}
    for name in ("usage_metadata", "model_version"):
        values[name] = next((v for each in reversed(pieces) if (v := getattr(each, name)) is not None), None)
    return values
