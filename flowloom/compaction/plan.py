"""Which events a summary is made of.

A summary is made of neighbouring events of one branch and isolation scope, so that it is seen by whoever saw those. It
holds a call and its results together or not at all. A call that waits (for a person, a long-running tool, an agent) and
what belongs to it stay as they are, and so does what is pinned; what lies before and behind can still be summarised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.genai import types

from flowloom.compaction.config import EventsCompactionConfig
from flowloom.compaction.token_count import characters, prompt_tokens, sees
from flowloom.events.event import Event
from flowloom.events.parts import parts_of
from flowloom.log.answers import answers_request
from flowloom.log.effective_log import EffectiveLog, Entry, Location, Span, location_of, span_of

PINNED = "pinned"
"""The key of an event's `custom_metadata` that says that it is always shown as it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a summary is to be made of, and what it will stand for."""

    events: list[Event]
    """What the summariser reads: earlier summaries, turns before that are read again, and the new events."""
    span: Span
    location: Location
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Asker:
    """An agent in the middle of a run, whose next prompt is to be made shorter."""

    agent: str
    location: Location
    current_turn_only: bool = False


def plan_of(
    events: Sequence[Event],
    log: EffectiveLog,
    config: EventsCompactionConfig,
    *,
    now: float,
    asker: Asker | None = None,
    force: bool = False,
) -> Plan | None:
    """What is to be summarised now, or None; of several branches, the one with the most to say.

    `asker` is given within a run: only what it sees is summarised then, and the latest input stays as it is. `force`
    summarises all that may be, but for what `event_retention_size` keeps.
    """
    log.read(events)
    over = _is_over(events, log, config, asker)
    if not (force or over or _may_be_due(log, config, now, asker)):
        return None
    entries = log.entries()
    links = _Links(entries)
    by_location: dict[Location, list[int]] = {}
    for index, entry in enumerate(entries):
        location = location_of(entry.event)
        scope = location[1]
        if sees(asker.location, location) if asker is not None else scope is None or scope in links.open_calls:
            by_location.setdefault(location, []).append(index)
    input_at = _latest_input(entries) if asker is not None else None
    best: tuple[int, list[int]] | None = None
    for indices in by_location.values():
        end = len(indices) - config.retention if force or over else 0
        if force and config.event_retention_size is None:
            end = len(indices)
        end = max(end, _end_by_count(entries, indices, config, asker), _end_by_age(entries, indices, config, now))
        for run in links.runs(indices[: max(end, 0)], indices, input_at, asker):
            gain = _gain(entries, run)
            if (gain > 0 or force) and (best is None or gain > best[0]):
                best = gain, run
    return None if best is None else _plan([entries[i] for i in best[1]], log.kept, config)


def _is_over(events: Sequence[Event], log: EffectiveLog, config: EventsCompactionConfig, asker: Asker | None) -> bool:
    """Whether the prompt is larger than it may be."""
    if config.token_threshold is None:
        return False
    who = {} if asker is None else {"agent": asker.agent, "viewer": asker.location}
    return prompt_tokens(events, log, **who) >= config.token_threshold  # type: ignore[arg-type]


def _may_be_due(log: EffectiveLog, config: EventsCompactionConfig, now: float, asker: Asker | None) -> bool:
    """Whether there is anything to be looked at more closely; a glance, because it is taken before each model call."""
    if asker is None and config.compaction_interval is not None:
        return True
    if config.event_threshold is not None and log.size() >= config.event_threshold:
        return True
    oldest = log.oldest() if config.max_age_seconds is not None else None
    return oldest is not None and oldest.timestamp <= now - (config.max_age_seconds or 0.0)


def _end_by_count(
    entries: Sequence[Entry], indices: list[int], config: EventsCompactionConfig, asker: Asker | None
) -> int:
    """How many of a branch's entries go into a summary because there are so many events, or turns."""
    end = 0
    if config.event_threshold is not None:
        plain = sum(not entries[index].is_summary for index in indices)
        if plain >= config.event_threshold:
            end = len(indices) - config.retention
    if asker is None and config.compaction_interval is not None:
        turns: set[str] = set()
        for index in reversed(indices):
            if entries[index].is_summary:
                break
            turns.add(entries[index].event.invocation_id)
        if len(turns) >= config.compaction_interval:
            end = len(indices)
    return end


def _end_by_age(entries: Sequence[Entry], indices: list[int], config: EventsCompactionConfig, now: float) -> int:
    """How many of a branch's entries go into a summary because they are so old."""
    age = config.max_age_seconds
    if age is None or not any(
        not entries[index].is_summary and entries[index].event.timestamp <= now - age for index in indices
    ):
        return 0
    return next((n for n, index in enumerate(indices) if entries[index].event.timestamp > now - age / 2), len(indices))


def _gain(entries: Sequence[Entry], run: list[int]) -> int:
    """By how many characters the prompt might shrink: the new events, less a summary as long as the ones before."""
    gain = 0
    for index in run:
        size = characters(entries[index].event)
        gain += -size if entries[index].is_summary else size
    return gain


def _latest_input(entries: Sequence[Entry]) -> int | None:
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if entry.event.author == "user" and not entry.is_summary and not entry.event.get_function_responses():
            return index
    return None


def _plan(run: list[Entry], kept: Sequence[Event], config: EventsCompactionConfig) -> Plan:
    location = location_of(run[0].event)
    events: list[Event] = []
    start, end = float("inf"), float("-inf")
    for number, entry in enumerate(run):
        event = entry.event
        compaction = event.actions.compaction if entry.is_summary else None
        start = min(start, event.timestamp if compaction is None else compaction.start_timestamp)
        end = max(end, event.timestamp if compaction is None else compaction.end_timestamp)
        events.append(event)
        if entry.is_summary and config.overlap_size and number + 1 < len(run) and not run[number + 1].is_summary:
            events += _overlap(kept, entry, location, config.overlap_size)
    span = Span(_span(run[0], kept).first_id, _span(run[-1], kept).last_id)
    return Plan(events, span, location, start, end)


def _span(entry: Entry, kept: Sequence[Event]) -> Span:
    """From which event through which one an entry goes, by their ids."""
    if not entry.is_summary:
        return Span(entry.event.id, entry.event.id)
    made_of = span_of(entry.event)
    if made_of is not None:
        return made_of
    first, last = (kept[at].id if 0 <= at < len(kept) else entry.event.id for at in (entry.first, entry.last))
    return Span(first, last)


def _overlap(kept: Sequence[Event], summary: Entry, location: Location, turns: int) -> list[Event]:
    """The last turns that a summary stands for, as they were."""
    found: list[Event] = []
    seen: set[str] = set()
    for index in range(summary.last, summary.first - 1, -1):
        event = kept[index]
        if location_of(event) != location or event.actions.compaction is not None:
            continue
        if event.invocation_id not in seen and len(seen) == turns:
            break
        seen.add(event.invocation_id)
        found.append(event)
    found.reverse()
    return found


@dataclass(slots=True)
class _Call:
    """A function call, and the entries it stands in: where it was made, then where it was answered."""

    made: types.FunctionCall
    is_long_running: bool
    members: list[int]
    waits: bool = True


class _Links:
    """Which entries belong together because one answers a call of the other, and which wait."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._calls_of: dict[int, list[_Call]] = {}
        calls: list[_Call] = []
        latest: dict[str, _Call] = {}
        for index, entry in enumerate(entries):
            if not entry.is_summary:
                self._read(index, entry.event, calls, latest)
        self.open_calls = {call.made.id or "" for call in calls if call.waits}
        self._fixed = {index for index, entry in enumerate(entries) if (entry.event.custom_metadata or {}).get(PINNED)}
        self._fixed.update(index for call in calls if call.waits for index in call.members)

    def _read(self, index: int, event: Event, calls: list[_Call], latest: dict[str, _Call]) -> None:
        actions = event.actions
        asked = actions.requested_tool_confirmations.keys() | actions.requested_auth_configs.keys()
        asked |= (actions.requested_inputs or {}).keys()
        long_running = event.long_running_tool_ids or ()
        for part in parts_of(event.content):
            made, response = part.function_call, part.function_response
            if made is not None:
                call = latest[made.id or ""] = _Call(made, made.id in long_running, [index])
                calls.append(call)
                self._calls_of.setdefault(index, []).append(call)
            elif response is not None and (response.id or "") in latest:
                call = latest[response.id or ""]
                call.members.append(index)
                self._calls_of.setdefault(index, []).append(call)
                is_result = not call.is_long_running or (
                    event.author == "user" and answers_request(response, call.made)
                )
                call.waits = response.id in asked or (call.waits and not is_result)

    def runs(self, wanted: list[int], branch: list[int], input_at: int | None, asker: Asker | None) -> list[list[int]]:
        """The longest runs of neighbours among `wanted`, the first entries of a branch, that can be summarised."""
        runs: list[list[int]] = []
        run: list[int] = []
        for index in wanted:
            if index in self._fixed or index == input_at:
                runs.append(run)
                run = []
                continue
            run.append(index)
        runs.append(run)
        if asker is not None and asker.current_turn_only and input_at is not None:
            runs = [run for run in runs if run and run[0] > input_at]
        found = [piece for run in runs for piece in self._whole(run)]
        return [run for run in found if any(not self._entries[index].is_summary for index in run)]

    def _whole(self, run: list[int]) -> list[list[int]]:
        """The pieces of a run none of whose calls is answered outside of them, and the other way round."""
        inside = {index: number for number, index in enumerate(run)}
        pieces: list[list[int]] = []
        start = safe = 0  # where a piece begins, and how far it is whole
        reach = -1
        for number, index in enumerate(run):
            members = [inside.get(other) for call in self._calls_of.get(index, ()) for other in call.members]
            if any(other is None or other < start for other in members):
                pieces.append(run[start:safe])
                start = safe = number + 1
                reach = -1
                continue
            reach = max([reach, *(other for other in members if other is not None)])
            if reach <= number:
                safe = number + 1
        pieces.append(run[start:safe])
        return [piece for piece in pieces if piece]
