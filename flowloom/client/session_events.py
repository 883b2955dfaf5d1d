"""`SessionEvents`: what happened in one session, kept up to date event by event, in bounded memory."""

from __future__ import annotations

import zlib
from collections import deque
from typing import Any, Self

from flowloom.client.store_records import (
    Bounded,
    CallRecord,
    ErrorRecord,
    Message,
    MessageStatus,
    Thought,
    TimelineEntry,
    Totals,
)
from flowloom.events.event import Event
from flowloom.interop.parsed import ParsedEvent, Source

_IDS_PER_EVENT = 4
_Key = tuple[str, str | None, str]


class SessionEvents:
    """What is known of one session. Made and changed by its `EventStore` only.

    Each list keeps its latest `max_events` entries; `totals` counts all that ever came.
    """

    def __init__(self, max_events: int) -> None:
        self.raw: deque[ParsedEvent] = deque(maxlen=max_events)
        """The latest events as they came. Not part of the serialised form."""
        self.totals = Totals()
        self.messages: deque[Message] = deque(maxlen=max_events)
        """What was said, in the order in which it began."""
        self.timeline: deque[TimelineEntry] = deque(maxlen=max_events)
        """Who was heard when, and hand-overs."""
        self.errors: deque[ErrorRecord] = deque(maxlen=max_events)
        self.last_event_id = ""
        self.last_invocation_id = ""
        self.last_author = ""
        self.last_timestamp = 0.0
        self.done = False
        """Whether the mark of the stream's end was the last thing that came."""
        self._calls: Bounded[str, CallRecord] = Bounded(max_events)
        self._sources: Bounded[str, Source] = Bounded(max_events)
        self._open: Bounded[_Key, Message] = Bounded(max_events)
        self._heard: Bounded[tuple[str, str | None], TimelineEntry] = Bounded(max_events)
        self._seen: Bounded[str, str] = Bounded(max_events * _IDS_PER_EVENT)

    @property
    def calls(self) -> list[CallRecord]:
        """Function calls with their responses, in order."""
        return list(self._calls.values())

    @property
    def pending_calls(self) -> list[CallRecord]:
        """The calls that wait for a response."""
        return [call for call in self._calls.values() if not call.answered]

    @property
    def sources(self) -> list[Source]:
        """What answers were grounded on, each address once."""
        return list(self._sources.values())

    @property
    def thoughts(self) -> list[Thought]:
        """The thoughts of the messages, in order."""
        return [Thought(message.author, message.thoughts) for message in self.messages if message.thoughts]

    @property
    def text(self) -> str:
        """All that agents said, message by message, with an empty line between them."""
        return "\n\n".join(each.text for each in self.messages if each.author != "user" and each.text)

    # -- adding --------------------------------------------------------------------------------

    def add(self, parsed: ParsedEvent) -> bool:
        """Take an event in; False if it came before."""
        event = parsed.event
        if parsed.kind == "done":
            self.end("complete")
            self.done = True
            return True
        first_time = self._note_id(parsed)
        if first_time is None:
            self.totals.duplicates += 1
            return False
        self.raw.append(parsed)
        if not first_time:
            return True  # the other half of an event that the server sends in two: content, then artifacts
        self.done = False
        self.totals.events += 1
        self.totals.partials += bool(event.partial)
        self._note_place(event)
        if parsed.kind != "error":
            self._note_timeline(parsed)
            self._note_text(parsed)
            if not event.partial:
                self._note_calls(parsed)
            self._note_sources(parsed)
        if parsed.error is not None:
            self._note_error(parsed)
        return True

    def _note_id(self, parsed: ParsedEvent) -> bool | None:
        """True for a new event, False for another half of a known one, None for one that came before."""
        event = parsed.event
        if not event.id:
            return True
        key = event.id
        if event.partial:
            # all partial events of an answer may have one id: those are told apart by their time and what they say
            # (an event that came without a time has got the time at which it was read)
            time = parsed.raw.get("timestamp") if isinstance(parsed.raw, dict) else event.timestamp
            said = f"{time}\0{parsed.text_content}\0{parsed.thought_content}".encode("utf-8", "surrogatepass")
            key += f"~{zlib.crc32(said):x}"
        half = "content" if event.content is not None else "actions"
        before = self._seen.get(key)
        if before is None or (before != half and half == "content"):
            self._seen[key] = half if before is None else "both"
            return True
        if before in (half, "both"):
            return None
        self._seen[key] = "both"
        return False

    def _note_place(self, event: Event) -> None:
        self.last_event_id = event.id or self.last_event_id
        self.last_invocation_id = event.invocation_id or self.last_invocation_id
        self.last_author = event.author or self.last_author
        self.last_timestamp = event.timestamp

    def _note_timeline(self, parsed: ParsedEvent) -> None:
        event = parsed.event
        place = (event.invocation_id, event.branch)
        heard = self._heard.get(place)
        if heard is not None and heard.agent == event.author:
            heard.until = event.timestamp
            heard.events += 1
        else:
            heard = TimelineEntry(
                "agent", event.author, event.branch, event.invocation_id, event.timestamp, event.timestamp
            )
            self._heard[place] = heard
            self.timeline.append(heard)
        if parsed.transfer_to_agent and not event.partial:
            self.totals.transfers += 1
            self.timeline.append(
                TimelineEntry(
                    "transfer",
                    event.author,
                    event.branch,
                    event.invocation_id,
                    event.timestamp,
                    event.timestamp,
                    to=parsed.transfer_to_agent,
                )
            )

    def _note_text(self, parsed: ParsedEvent) -> None:
        event = parsed.event
        text, thoughts = parsed.text_content, parsed.thought_content
        key = (event.invocation_id, event.branch, event.author)
        message = self._open.get(key)
        if message is None and (text or thoughts):
            message = Message(
                event.author,
                branch=event.branch,
                invocation_id=event.invocation_id,
                event_id=event.id,
                timestamp=event.timestamp,
            )
            self._open[key] = message
            self.messages.append(message)
            self.totals.messages += 1
        if message is None:
            return
        message.status = "streaming"  # an error by itself, after which the stream went on, was not its end
        message.event_id = event.id
        if event.partial:
            message.add(text, thoughts)
        else:
            message.settle(text, thoughts)
        if event.interrupted:
            self._end(key, "interrupted")
        elif not event.partial and parsed.error is None and (event.turn_complete or event.content is not None):
            self._end(key, "complete")

    def _end(self, key: _Key, status: MessageStatus) -> None:
        message = self._open.pop(key, None)
        if message is not None:
            message.status = status

    def end(self, status: MessageStatus) -> None:
        """Nothing more comes of the messages that are being said."""
        for message in self._open.values():
            if message.status == "streaming":
                message.status = status
        self._open.clear()

    def _note_calls(self, parsed: ParsedEvent) -> None:
        event = parsed.event
        for call in parsed.function_calls:
            # models without ids: the number of the call stands for one
            call_id = call.id or f"#{self.totals.calls + 1}"
            record = self._calls.get(call_id)
            if record is None or record.args is None:
                self.totals.calls += 1
            if record is None:
                record = self._calls[call_id] = self._new_call(call_id, event)
            record.name = call.name or record.name
            record.args = call.args or {}
            record.author = event.author
            record.long_running = call_id in (event.long_running_tool_ids or ())
        for response in parsed.function_responses:
            self.totals.responses += 1
            record = self._call_of(response.id, response.name or "", event)
            record.responses += 1
            record.response = response.response
            record.responded_at = event.timestamp

    def _call_of(self, call_id: str | None, name: str, event: Event) -> CallRecord:
        """The call that a response belongs to; one without an id answers the first open call of its name."""
        if call_id:
            record = self._calls.get(call_id)
        else:
            record = next((call for call in self._calls.values() if call.name == name and not call.answered), None)
        if record is None:
            call_id = call_id or f"?{self.totals.responses}"
            record = self._calls[call_id] = self._new_call(call_id, event)
            record.name = name
        return record

    def _new_call(self, call_id: str, event: Event) -> CallRecord:
        return CallRecord(
            call_id,
            author=event.author,
            branch=event.branch,
            invocation_id=event.invocation_id,
            timestamp=event.timestamp,
        )

    def _note_sources(self, parsed: ParsedEvent) -> None:
        for source in parsed.sources:
            if source.url not in self._sources:
                self.totals.sources += 1
                self._sources[source.url] = source

    def _note_error(self, parsed: ParsedEvent) -> None:
        """Keep the error; the messages that it breaks off keep what was said.

        An error by itself breaks off all of them, as far as is known: the stream may still go on.
        """
        event, error = parsed.event, parsed.error
        if error is None:
            return
        alone = parsed.kind == "error"
        if alone:
            broken = [message for message in self._open.values() if message.status == "streaming"]
        else:
            message = self._open.pop((event.invocation_id, event.branch, event.author), None)
            broken = [] if message is None else [message]
        for message in broken:
            message.status = "failed"
        self.totals.errors += 1
        self.errors.append(
            ErrorRecord(
                str(error),
                error.code,
                self.last_author if alone else event.author,
                self.last_invocation_id if alone else event.invocation_id,
                event.timestamp,
                "".join(message.text for message in broken),
                error.details,
            )
        )

    # -- serialised form -----------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All but the raw events, as JSON data."""
        return {
            "totals": self.totals.to_dict(),
            "last_event_id": self.last_event_id,
            "last_invocation_id": self.last_invocation_id,
            "last_author": self.last_author,
            "last_timestamp": self.last_timestamp,
            "done": self.done,
            "messages": [message.to_dict() for message in self.messages],
            "timeline": [entry.to_dict() for entry in self.timeline],
            "errors": [error.to_dict() for error in self.errors],
            "calls": [call.to_dict() for call in self._calls.values()],
            "sources": [list(source) for source in self._sources.values()],
            "seen": [[key, halves] for key, halves in self._seen.items()],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], max_events: int) -> Self:
        """The state of such data. Messages and agents that were being heard go on with the next event."""
        new = cls(max_events)
        new.totals = Totals.from_dict(data["totals"])
        for name in ("last_event_id", "last_invocation_id", "last_author", "last_timestamp", "done"):
            setattr(new, name, data[name])
        for each in data["messages"]:
            message = Message.from_dict(each)
            new.messages.append(message)
            if message.status == "streaming":
                new._open[message.invocation_id, message.branch, message.author] = message
        for each in data["timeline"]:
            entry = TimelineEntry.from_dict(each)
            new.timeline.append(entry)
            if entry.kind == "agent":
                new._heard[entry.invocation_id, entry.branch] = entry
        new.errors.extend(map(ErrorRecord.from_dict, data["errors"]))
        for each in data["calls"]:
            new._calls[each["id"]] = CallRecord.from_dict(each)
        for url, title in data["sources"]:
            new._sources[url] = Source(url, title)
        for key, halves in data["seen"]:
            new._seen[key] = halves
        return new
