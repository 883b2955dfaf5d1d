"""`CallIds`: the ids that function calls have in a session, each of which names one call."""

from __future__ import annotations

from collections.abc import Sequence

from flowloom.events.event import Event


class CallIds:
    """The ids of the calls in one log, read as far as they were asked for, and of those that are about to be in it.

    Models are free to give an id twice. What is shown, decided about and answered goes by ids, so each call needs one
    of its own.
    """

    __slots__ = ("_known", "_last", "_read")

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._read = 0
        self._last: Event | None = None

    def claim(self, events: Sequence[Event], call_id: str) -> bool:
        """Take an id for a new call. False if a call has it, rewound or not; work is proportional to the new events."""
        done = self._read
        if done > len(events) or (done and events[done - 1] is not self._last):
            done = 0
        for index in range(done, len(events)):
            content = events[index].content
            for part in (content.parts if content is not None else None) or ():
                if part.function_call is not None and part.function_call.id:
                    self._known.add(part.function_call.id)
        self._read = len(events)
        self._last = events[-1] if events else None
        if call_id in self._known:
            return False
        self._known.add(call_id)
        return True
