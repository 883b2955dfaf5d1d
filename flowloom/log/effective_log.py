"""The log as it counts: without what was rewound, and with each summary in the place of the events it stands for.

A rewind takes away what stands in the log between the invocation it names and itself, summaries included, so that what
they stood for is there again. A summary made here says in its `custom_metadata` from which event through which one it
was made, and stands for the events of its own branch and isolation scope between them: what was appended while it was
made is not swallowed, and one that tells of rewound events does not count. One made elsewhere stands for what came
before it in its isolation scope and between its times. A wider or later summary wins over one that it holds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from flowloom.events.actions import EventCompaction
from flowloom.events.event import Event
from flowloom.events.wire import fields_of, replace, set_fields
from flowloom.log.cursor import LogCursor

SPAN_KEY = "flowloom.compaction"
"""Where a summary made here keeps the ids of the first and the last event that it stands for."""

_first_of: Callable[[Entry], int] = attrgetter("first")
_time_of: Callable[[Entry], float] = attrgetter("event.timestamp")


@dataclass(slots=True, eq=False, repr=False)
class Entry:
    """An event that counts, or a summary in the place of some."""

    event: Event
    """The event; of a summary what is shown, with the summary as its content."""
    first: int
    """The position in the log of the first event it stands for, those that were rewound not counted."""
    last: int

    @property
    def is_summary(self) -> bool:
        """Whether it stands for other events."""
        return self.event.actions.compaction is not None


class Span(NamedTuple):
    """Which events a summary was made of."""

    first_id: str
    last_id: str

    def to_metadata(self) -> dict[str, Any]:
        """As it is kept in `Event.custom_metadata`."""
        return {SPAN_KEY: {"from": self.first_id, "through": self.last_id}}


def span_of(summary: Event) -> Span | None:
    """Which events a summary was made of; None if it was made elsewhere."""
    match (summary.custom_metadata or {}).get(SPAN_KEY):
        case {"from": str(first), "through": str(last)}:
            return Span(first, last)
        case _:
            return None


Location = tuple[str | None, str | None]
"""A branch and an isolation scope."""


def location_of(event: Event) -> Location:
    """The branch and the isolation scope of an event."""
    return event.branch or None, event.isolation_scope or None


class EffectiveLog:
    """What counts of one session's log, extended by the new events only.

    `changes` are all that was no plain addition at the end, in order: each summary, and None for a rewind, for a call
    that is shown again, and for a log that is read anew.
    """

    def __init__(self) -> None:
        self._cursor = LogCursor()
        self.changes: list[Event | None] = []
        self.generation = 0
        """How often what was read has ceased to count: it was rewound, or all was read anew."""
        self._reset()

    def _reset(self) -> None:
        self.rewound: list[Event] = []
        """What was rewound, in the order in which it was."""
        self._plain = True  # nothing was rewound or summarised so far, and the log is what counts
        self._kept: list[Event] = []
        self.kept: Sequence[Event] = self._kept
        """The log without what was rewound."""
        self._positions: dict[str, int] = {}  # in `_kept`, by id
        self._starts: dict[str, int] = {}  # where in `kept` each invocation begins, as far as that was asked for
        self._indexed = 0  # how far that is
        self._gone: set[str] = set()  # the ids of what was rewound
        self._entries: list[Entry] = []  # in the order of `first`
        self._in_time = True  # whether they are in the order of their times, too
        self._hidden_calls: dict[str, Event] = {}  # summarised calls that may be answered again
        self._restored = False

    # -- reading ------------------------------------------------------------------------------------

    def read(self, events: Sequence[Event]) -> None:
        """Come up to date with the log."""
        new = self._cursor.advance(events)
        if new is None:
            self._reset()
            self.generation += 1
            self.changes = [None] * (len(self.changes) + 1)  # it holds nothing of another log
            new = events
        if self._plain:
            self.kept = events
            for event in new:
                done = fields_of(event.actions)
                if done["rewind_before_invocation_id"] is not None or done["compaction"] is not None:
                    self._plain, self.kept, new = False, self._kept, events
                    break
        if not self._plain:
            for event in new:
                self._take(event)

    def start_of(self, invocation_id: str) -> int | None:
        """Where in `kept` an invocation begins; None if it is not there."""
        starts = self._starts
        for index in range(self._indexed, len(self.kept)):
            starts.setdefault(self.kept[index].invocation_id, index)
        self._indexed = len(self.kept)
        return starts.get(invocation_id)

    def shown(self) -> Sequence[Event]:
        """What counts, summaries included."""
        return self.kept if self._plain else [entry.event for entry in self._entries]

    def entries(self) -> Sequence[Entry]:
        """The same with the positions that they stand for."""
        return [Entry(event, at, at) for at, event in enumerate(self.kept)] if self._plain else self._entries

    def size(self) -> int:
        """How many entries there are."""
        return len(self.kept if self._plain else self._entries)

    def oldest(self) -> Event | None:
        """The first event that no summary stands for."""
        if self._plain:
            return next(iter(self.kept), None)
        return next((entry.event for entry in self._entries if not entry.is_summary), None)

    def shown_since(self, position: int) -> list[Event] | None:
        """What counts from a position on, seen from there: summaries of nothing but what came since. None if no summary
        is one of those, so that all counts as it was."""
        log = EffectiveLog()
        log._gone = self._gone
        for event in self._kept[position:]:
            if self._is_since(event, position):
                log._take(event)
        return [entry.event for entry in log._entries] if log.changes else None

    def changed_since(self, seen: int, position: int) -> bool:
        """Whether a change, but for those that were `seen`, is one to what is shown from a position on."""
        new = self.changes[seen:]
        return any(event is None or event.id in self._gone or self._is_since(event, position) for event in new)

    def _is_since(self, event: Event, position: int) -> bool:
        """Whether an event tells of nothing that stands before a position: it is no summary, or a later one."""
        compaction = event.actions.compaction
        if compaction is None:
            return True
        span = span_of(event)
        if span is None:
            return compaction.start_timestamp >= self._kept[position].timestamp
        return self._positions.get(span.first_id, -1) >= position

    # -- growing ------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        actions = event.actions
        if actions.rewind_before_invocation_id is not None:
            self.changes.append(None)
            self._rewind(actions.rewind_before_invocation_id)
            return
        at = len(self._kept)
        self._kept.append(event)
        self._positions[event.id] = at
        if actions.compaction is not None:
            self.changes.append(event)
            self._summarise(event, actions.compaction, at)
        elif self._add(event, at):
            self.changes.append(None)

    def _rewind(self, invocation_id: str) -> None:
        start = self.start_of(invocation_id)
        if start is None:
            return
        removed = self._kept[start:]
        del self._kept[start:]
        self._indexed = start
        self.rewound += removed
        self.generation += 1
        summarised = self._restored
        for event in removed:
            summarised = summarised or event.actions.compaction is not None
            self._gone.add(event.id)
            if self._starts.get(event.invocation_id, -1) >= start:
                del self._starts[event.invocation_id]
        if not summarised:
            del self._entries[bisect_left(self._entries, start, key=_first_of) :]
            return
        self._entries.clear()
        self._hidden_calls.clear()
        self._in_time, self._restored = True, False
        for at, event in enumerate(self._kept):
            if event.actions.compaction is None:
                self._add(event, at)
            else:
                self._summarise(event, event.actions.compaction, at)

    def _add(self, event: Event, at: int) -> bool:
        """Add an event at the end. Whether a summarised call that it answers is shown again before it."""
        entries = self._entries
        if entries and event.timestamp < entries[-1].event.timestamp:
            self._in_time = False
        restored = self._restored_by(event, at) if self._hidden_calls else []
        entries += restored
        entries.append(Entry(event, at, at))
        return bool(restored)

    def _restored_by(self, event: Event, at: int) -> list[Entry]:
        """The summarised events whose calls an event answers, to be shown before it; they are hidden no longer."""
        restored: list[Entry] = []
        for response in event.get_function_responses():
            hidden = self._hidden_calls.get(response.id or "")
            if hidden is not None:
                restored.append(Entry(hidden, at, at))
                self._forget_hidden(hidden)
        self._forget_hidden(event)  # a call of the same id takes the place of a hidden one
        if restored:
            self._restored, self._in_time = True, False
        return restored

    def _forget_hidden(self, event: Event) -> None:
        for call in event.get_function_calls():
            self._hidden_calls.pop(call.id or "", None)

    # -- summaries ----------------------------------------------------------------------------------

    def _summarise(self, summary: Event, compaction: EventCompaction, at: int) -> None:
        """Put a summary in the place of what it stands for."""
        span = span_of(summary)
        if span is not None and span.last_id in self._gone:
            return
        entries = self._entries
        lowest, highest, covers = self._reach(summary, compaction, span)
        covered = [index for index in range(lowest, highest) if covers(entries[index])]
        branch = None if span is None else summary.branch
        shown = replace(summary, content=compaction.compacted_content, author="user", branch=branch)
        if not covered:
            self._insert(shown, compaction, span, highest, at)
            return
        first, last = entries[covered[0]], max(entries[index].last for index in covered)
        set_fields(shown, timestamp=first.event.timestamp)
        events = [entries[index].event for index in covered if not entries[index].is_summary]
        entries[covered[0]] = Entry(shown, first.first, last)
        gone = set(covered[1:])
        entries[lowest:highest] = [entries[index] for index in range(lowest, highest) if index not in gone]
        self._hide(events, after=covered[0])

    def _reach(
        self, summary: Event, compaction: EventCompaction, span: Span | None
    ) -> tuple[int, int, Callable[[Entry], bool]]:
        """Between which entries those lie that a summary stands for, and which of them those are."""
        entries = self._entries
        if span is not None:
            # what was not loaded stands before all that was
            first, last = (self._positions.get(event_id, -1) for event_id in span)
            location = location_of(summary)
            lowest = bisect_left(entries, first, key=_first_of)
            highest = bisect_right(entries, last, key=_first_of)
            return lowest, highest, lambda entry: entry.last <= last and location_of(entry.event) == location
        start, end, scope = compaction.start_timestamp, compaction.end_timestamp, summary.isolation_scope or None
        lowest, highest = 0, len(entries)
        if self._in_time:
            lowest = bisect_left(entries, start, key=_time_of)
            highest = bisect_right(entries, end, key=_time_of)
        return lowest, highest, lambda entry: _within(entry, start, end) and location_of(entry.event)[1] == scope

    def _insert(self, shown: Event, compaction: EventCompaction, span: Span | None, index: int, at: int) -> None:
        """Put a summary where what it stands for would be, unless another holds it already; `index` is that of one made
        here."""
        entries = self._entries
        if any(_holds(entry, shown, compaction) for entry in entries):
            return
        if span is None:
            later = (number for number, entry in enumerate(entries) if _time_of(entry) > compaction.end_timestamp)
            index = next(later, len(entries))
        first = entries[index].first if index < len(entries) else at
        if span is not None and span.last_id not in self._positions:
            first = -1
        set_fields(shown, timestamp=compaction.end_timestamp)
        entries.insert(index, Entry(shown, first, first))
        self._in_time = self._in_time and span is None  # one from elsewhere is put where its time belongs

    def _hide(self, events: Sequence[Event], *, after: int) -> None:
        """Take note of the summarised calls that may still be answered, and show again those that are."""
        hidden = _answerable_calls(events)
        if not hidden:
            return
        self._hidden_calls.update(hidden)
        entries: list[Entry] = []
        for entry in self._entries[after + 1 :]:
            restored = () if entry.is_summary else self._restored_by(entry.event, entry.first)
            entries += [*restored, entry]
        self._entries[after + 1 :] = entries


def _answerable_calls(events: Sequence[Event]) -> dict[str, Event]:
    """The events whose calls may still be answered, by call id; of two calls of one id, the later one has it."""
    found: dict[str, Event] = {}
    answered: set[str] = set()
    for event in reversed(events):
        waiting = event.long_running_tool_ids or ()
        for call in event.get_function_calls():
            if call.id and (call.id in waiting or call.id not in answered):
                found.setdefault(call.id, event)
            answered.discard(call.id or "")
        answered.update(response.id or "" for response in event.get_function_responses())
    return found


def _within(entry: Entry, start: float, end: float) -> bool:
    """Whether an entry is of nothing but what happened between two times."""
    compaction = entry.event.actions.compaction
    if compaction is not None:
        return start <= compaction.start_timestamp and compaction.end_timestamp <= end
    return start <= entry.event.timestamp <= end


def _holds(entry: Entry, shown: Event, compaction: EventCompaction) -> bool:
    """Whether an entry is a summary at the same location, of all that another one is of."""
    held = entry.event.actions.compaction
    if held is None or location_of(entry.event) != location_of(shown):
        return False
    return held.start_timestamp <= compaction.start_timestamp and compaction.end_timestamp <= held.end_timestamp
