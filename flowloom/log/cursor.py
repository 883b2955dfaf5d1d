"""`LogCursor`: how far a log was read."""

from __future__ import annotations

from collections.abc import Sequence

from flowloom.events.event import Event


class LogCursor:
    """How far a reader has read a log, so that it reads new events only."""

    __slots__ = ("_count", "_first", "_last")

    def __init__(self) -> None:
        self._count = 0
        self._first: Event | None = None
        self._last: Event | None = None

    def advance(self, events: Sequence[Event]) -> Sequence[Event] | None:
        """The events that are new. None if these do not begin with those that were read: all of them count anew."""
        done = self._count
        if done and (done > len(events) or events[done - 1] is not self._last or events[0] is not self._first):
            self.__init__()
            self.advance(events)
            return None
        new = events[done:]
        if new:
            self._count, self._last = done + len(new), new[-1]
            if not done:
                self._first = new[0]
        return new
