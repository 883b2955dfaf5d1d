"""`CallIds`: the ids that function calls have in a session, each of which names one call."""

from __future__ import annotations

from collections.abc import Sequence

from flowloom.events.event import Event
from flowloom.log.cursor import LogCursor


class CallIds:
    """The ids of the calls in one log, read as far as they were asked for, and of those that are about to be in it.

    Models are free to give an id twice. What is shown, decided about and answered goes by ids, so each call needs one
    of its own.
    """

    __slots__ = ("_cursor", "_known")

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._cursor = LogCursor()

    def claim(self, events: Sequence[Event], call_id: str) -> bool:
        """Take an id for a new call. False if a call has it, rewound or not; work is proportional to the new events."""
        new = self._cursor.advance(events)
        for event in events if new is None else new:
            content = event.content
            for part in (content.parts if content is not None else None) or ():
                if part.function_call is not None and part.function_call.id:
                    self._known.add(part.function_call.id)
        if call_id in self._known:
            return False
        self._known.add(call_id)
        return True
