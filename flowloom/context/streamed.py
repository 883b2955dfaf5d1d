"""`Streamed`: what the consumer of a run has seen of answers that are not complete yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flowloom.events.event import Event
from flowloom.events.parts import content_of, text_part
from flowloom.events.wire import fields_of, make, replace
from flowloom.log.marks import AGENT_TOOL_CALL, AGENT_TOOL_PARTIAL

_PLACE = ("invocation_id", "author", "branch", "isolation_scope", "node_info")


@dataclass(slots=True, eq=False, repr=False)
class _Answer:
    """One answer: its texts, and no events, which are many and would have to be kept."""

    latest: Event
    texts: list[str] = field(default_factory=list[str])
    metered: Event | None = None
    """The latest event that says what was used."""
    broken: bool = False
    """Whether its agent was stopped, while the run perhaps goes on."""

    def fields(self) -> dict[str, Any]:
        """What the event that keeps the answer has of it; empty if it has no text."""
        text = "".join(self.texts)
        if not text.strip():
            return {}
        values: dict[str, Any] = {"content": content_of("model", [text_part(text)]), "interrupted": True}
        if self.metered is not None:
            values |= {"usage_metadata": self.metered.usage_metadata, "model_version": self.metered.model_version}
        return values


class Streamed:
    """The answers that are being streamed, by the id of their events.

    An answer that is stopped is kept as far as it was streamed: its text, without thoughts and calls.
    """

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: dict[str, _Answer] = {}

    def add(self, event: Event) -> None:
        """Take in a partial event."""
        fields = fields_of(event)  # half of what the attributes of a pydantic model cost, for every chunk
        answer = self._answers.get(fields["id"])
        if answer is None:
            answer = self._answers[event.id] = _Answer(event)
        answer.latest = event
        content = fields["content"]
        if content is not None:
            for part in content.parts or ():
                text = part.text
                if text and not part.thought:
                    answer.texts.append(text)
        if fields["usage_metadata"] is not None:
            answer.metered = event
        metadata = fields["custom_metadata"]
        if metadata and metadata.get(AGENT_TOOL_PARTIAL) is False:
            self.end(event)

    def restart(self, event_id: str) -> None:
        """The answer begins again: what was streamed of it so far is none of it."""
        self._answers.pop(event_id, None)

    def break_off(self, author: str, branch: str | None, scope: str | None) -> None:
        """The turn of an agent was ended from outside, or by an error: what it was saying does not go on."""
        speaker = author, branch, scope, None
        for each in self._answers.values():
            each.broken = each.broken or speaker_of(each.latest) == speaker

    def end(self, event: Event) -> None:
        """A complete event is there: of that answer, or of another one of its speaker."""
        self._answers.pop(event.id, None)
        if self._answers and (event.content is not None or event.error_code):
            speaker = speaker_of(event)
            self._answers = {
                key: each for key, each in self._answers.items() if each.broken or speaker_of(each.latest) != speaker
            }

    def completed(self, event: Event) -> Event:
        """An event that says in the place of an answer what went wrong, with the text that was streamed."""
        answer = self._answers.get(event.id)
        if answer is None or event.content is not None or not event.error_code:
            return event
        missing = {name: value for name, value in answer.fields().items() if getattr(event, name) is None}
        return replace(event, **missing)

    def cut_off(self, *, all_over: bool = True) -> list[Event]:
        """The events that keep what was streamed of answers that do not go on, by speaker, in the order in which they
        began: of all of them, if nothing streams after, or of the broken ones."""
        over = {key: each for key, each in self._answers.items() if all_over or each.broken}
        self._answers = {key: each for key, each in self._answers.items() if key not in over}
        spoken: dict[tuple[Any, ...], _Answer] = {}
        for each in over.values():
            answer = spoken.setdefault(speaker_of(each.latest), each)
            if answer is not each:  # of an agent whose partial events have ids of their own
                answer.texts += each.texts
                answer.latest, answer.metered = each.latest, each.metered or answer.metered
        events: list[Event] = []
        for answer in spoken.values():
            kept, latest = answer.fields(), answer.latest
            if kept:
                place, mark = {name: getattr(latest, name) for name in _PLACE}, _mark_of(latest)
                if mark is not None:
                    place["isolation_scope"] = place["isolation_scope"] or mark
                    place["custom_metadata"] = {AGENT_TOOL_CALL: mark}
                events.append(make(Event, id=latest.id, timestamp=latest.timestamp, **place, **kept))
        return events


def speaker_of(event: Event) -> tuple[Any, ...]:
    """Whose words an event has: the agent, where it stands, and the call for which it runs."""
    return event.author, event.branch, event.isolation_scope, _mark_of(event)


def _mark_of(event: Event) -> Any:
    return event.custom_metadata.get(AGENT_TOOL_CALL) if event.custom_metadata else None
