"""How large the next prompt is: counted by the model where it counts, else estimated from characters."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from flowloom.events.event import Event
from flowloom.events.parts import parts_of
from flowloom.log.effective_log import EffectiveLog, Location, location_of

CHARACTERS_PER_TOKEN = 4
_LOOK_BACK = 64
"""How many events back a count of the model's is looked for."""


def characters(event: Event) -> int:
    """How many characters an event puts into a request: texts, arguments and results; thoughts left out."""
    total = 0
    for part in parts_of(event.content):
        call, response = part.function_call, part.function_response
        if part.text:
            total += 0 if part.thought else len(part.text)
        elif call is not None:
            total += len(call.name or "") + (len(str(call.args)) if call.args else 0)
        elif response is not None:
            total += len(response.name or "") + (len(str(response.response)) if response.response else 0)
    return total


class _Sums:
    """The characters of all that counts in a log, by branch and scope, extended by what is new."""

    def __init__(self) -> None:
        self.by_location: dict[Location, int] = {}
        self._counted = 0
        self._changes = 0  # of the log

    def follow(self, events: Sequence[Event], log: EffectiveLog) -> None:
        changed = self._changes != len(log.changes)
        if changed:
            self.by_location.clear()
        for event in log.shown() if changed else events[self._counted :]:
            location = location_of(event)
            self.by_location[location] = self.by_location.get(location, 0) + characters(event)
        self._counted, self._changes = len(events), len(log.changes)


_sums: WeakKeyDictionary[EffectiveLog, _Sums] = WeakKeyDictionary()


def sees(viewer: Location | None, location: Location) -> bool:
    """Whether events at `location` are seen from `viewer` (see `visible`); None is outside any task."""
    ours, our_scope = viewer or (None, None)
    theirs, their_scope = location
    return our_scope == their_scope and (not theirs or not ours or theirs == ours or ours.startswith(theirs + "."))


def prompt_tokens(
    events: Sequence[Event], log: EffectiveLog, *, agent: str | None = None, viewer: Location | None = None
) -> int:
    """How many tokens the next prompt has: what the model counted last, and an estimate of what came since.

    With `agent`, that of this agent at `viewer`; else the largest of the latest run, because the one who spoke last
    may see only a little. A count from before a summary is none. Without any, all is estimated. `log` has read
    `events`.
    """
    newer = counted = 0
    latest: str | None = None
    for back in range(1, min(len(events), _LOOK_BACK) + 1):
        event = events[-back]
        if event.actions.compaction is not None or event.actions.rewind_before_invocation_id is not None:
            break
        latest = latest or event.invocation_id
        if agent is None and counted and event.invocation_id != latest:
            break
        usage = event.usage_metadata
        is_own = agent is None or (event.author == agent and location_of(event) == viewer)
        if usage is not None and usage.prompt_token_count and is_own:
            total = usage.prompt_token_count + (usage.candidates_token_count or 0) + newer // CHARACTERS_PER_TOKEN
            if agent is not None:
                return total
            counted = max(counted, total)
        if sees(viewer, location_of(event)):
            newer += characters(event)
    if counted:
        return counted
    sums = _sums.get(log)
    if sums is None:
        sums = _sums[log] = _Sums()
    sums.follow(events, log)
    return sum(size for location, size in sums.by_location.items() if sees(viewer, location)) // CHARACTERS_PER_TOKEN
