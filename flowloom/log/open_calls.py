"""`OpenCalls`: the calls in a log that have no result yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.genai import types

from flowloom.events.event import Event
from flowloom.log.cursor import LogCursor


class OpenCalls:
    """The calls of a log without a result, and the scopes of agents that were called and have not finished.

    It belongs to a session's history, and reads new events only.
    """

    __slots__ = ("_calls", "_cursor", "_scopes")

    def __init__(self) -> None:
        self._cursor = LogCursor()
        self._reset()

    def _reset(self) -> None:
        self._calls: dict[str, list[tuple[Event, types.FunctionCall]]] = {}  # of one id, all that were made
        self._scopes: dict[str, None] = {}  # the latest one last

    def read(self, events: Sequence[Event]) -> OpenCalls:
        """Come up to date with the log."""
        new = self._cursor.advance(events)
        if new is None:
            self._reset()
        for event in events if new is None else new:
            self._take(event)
        return self

    def _take(self, event: Event) -> None:
        scope = event.isolation_scope
        if scope:
            self._scopes.pop(scope, None)
            self._scopes[scope] = None
        for part in (event.content.parts if event.content is not None else None) or ():
            if part.function_call is not None and part.function_call.id:
                self._calls.setdefault(part.function_call.id, []).append((event, part.function_call))
        for response in event.get_function_responses():
            self._calls.pop(response.id or "", None)
            self._scopes.pop(response.id or "", None)

    def __iter__(self) -> Iterator[tuple[Event, types.FunctionCall]]:
        """The open calls with the events that made them, in the order made."""
        for made in self._calls.values():
            yield from made

    def call(self, call_id: str) -> types.FunctionCall | None:
        """The open call of that id, the latest if there are several."""
        made = self._calls.get(call_id)
        return made[-1][1] if made else None

    @property
    def latest_scope(self) -> str | None:
        """The scope of the latest event whose agent has not finished: the user's next message belongs to it."""
        return next(reversed(self._scopes), None)
