"""The sessions that a store has seen lately, so that loading one again reads only what is new."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence

from flowloom.events.event import Event
from flowloom.log.history import History
from flowloom.sessions.leases import Key
from flowloom.sessions.shared_list import shared


class _Seen:
    """The beginning of a log, and the projections that were built of it."""

    __slots__ = ("events", "history", "log", "loop")

    def __init__(self, log: int, events: list[Event]) -> None:
        self.log = log
        self.events = events
        self.history = History()
        self.loop: weakref.ref[asyncio.AbstractEventLoop] | None = None


class SessionCache:
    """Logs by session, the least lately used dropped when there are more than `max_events` events in all."""

    def __init__(self, max_events: int) -> None:
        self._max = max_events
        self._count = 0
        self._seen: OrderedDict[Key, _Seen] = OrderedDict()
        self._lock = threading.Lock()

    def seen(self, key: Key) -> tuple[int, int]:
        """Which log of a session was seen, and up to which seq; (0, 0) for none."""
        with self._lock:
            found = self._seen.get(key)
            return (0, 0) if found is None else (found.log, len(found.events))

    def merge(self, key: Key, log: int, after: int, new: Sequence[Event]) -> tuple[Sequence[Event], History] | None:
        """Take in the events of a log after `after`; all of its events, and the history that is shared in this loop.

        None if what came before is not known any more.
        """
        with self._lock:
            found = self._seen.get(key)
            if found is None or found.log != log:
                if after:
                    return None
                self._forget(key)
                found = self._seen[key] = _Seen(log, [])
            elif after > len(found.events):
                return None
            end = after + len(new)
            fresh = new[len(found.events) - after :]
            found.events.extend(fresh)
            events = shared(found.events, end)
            history = self._history(found)
            self._seen.move_to_end(key)
            self._grow(len(fresh))
            return events, history

    def _history(self, found: _Seen) -> History:
        """The history belongs to one loop at a time, for it is not made for threads."""
        loop = asyncio.get_running_loop()
        if found.loop is None or found.loop() is not loop:
            if found.loop is not None:
                found.history = History()
            found.loop = weakref.ref(loop)
        return found.history

    def append(self, key: Key, log: int, seq: int, event: Event) -> None:
        """Take in an event that was stored, if it is the next one of what was seen."""
        with self._lock:
            found = self._seen.get(key)
            if found is not None and found.log == log and len(found.events) == seq - 1:
                found.events.append(event)
                self._grow(1)

    def share(self, key: Key, log: int, new_key: Key, new_log: int, upto: int) -> None:
        """A fork begins with the events of another session, up to and with seq `upto`."""
        with self._lock:
            found = self._seen.get(key)
            if found is not None and found.log == log and len(found.events) >= upto:
                self._forget(new_key)
                self._seen[new_key] = _Seen(new_log, found.events[:upto])
                self._grow(upto)

    def forget(self, key: Key) -> None:
        """Drop what was seen of a session."""
        with self._lock:
            self._forget(key)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._seen.clear()
            self._count = 0

    def _forget(self, key: Key) -> None:
        found = self._seen.pop(key, None)
        if found is not None:
            self._count -= len(found.events)

    def _grow(self, count: int) -> None:
        self._count += count
        while self._count > self._max and self._seen:
            self._forget(next(iter(self._seen)))
