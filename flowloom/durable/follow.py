"""`Follower`: the events of a run as they come, from whichever process runs it (durable design, section 7).

The log is the truth, and the direct channel the haste: it says when to read, and has the parts of messages, which the
log has not. A part that comes late, of a message that is complete, is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator

from flowloom.durable.callers import Callers
from flowloom.durable.records import OVER, Row, WorkerRow
from flowloom.durable.registry import Registry, not_found
from flowloom.events import Event
from flowloom.sessions.leases import Key

_SHORTEST, _LONGEST = 0.01, 0.25
"""Seconds between two looks at a run that no worker in reach has."""


class Follower:
    """Follows a run to its end, or to its next pause."""

    def __init__(
        self, registry: Registry, callers: Callers, key: Key, run_id: str, *, deltas: bool, after: int
    ) -> None:
        self._registry = registry
        self._callers = callers
        self._key = key
        self._run_id = run_id
        self._deltas = deltas
        self._left_out = after
        self._read = 0
        """How many events of the session were looked at."""
        self._complete: set[str] = set()
        """The events that were given, or left out."""
        self._speaks = False
        """Whether parts of a message were given that is not complete yet."""

    async def events(self) -> AsyncGenerator[Event | None, None]:
        """Its events, partial ones too if they were asked for; None when what was being said comes to no end, because
        another worker goes on."""
        pause, before = _SHORTEST, None
        while True:
            row = await self._registry.find(self._run_id)
            if row is None:
                raise not_found(self._run_id)
            given = False
            worker = await self._worker_of(row)
            waits = row.status in ("waiting", "ready") and row == before  # nothing is in the log since
            before = row
            if not waits and (worker is None or not self._deltas):
                for event in await self._news():
                    given = True
                    yield event
            if row.status in OVER or row.status == "paused":
                return
            if worker is not None:
                told = self._callers.follow(worker, self._run_id, deltas=self._deltas)
                try:
                    async for event in told:
                        given = True
                        if isinstance(event, str):
                            for each in await self._news(event):
                                yield each
                            if not event and not await self._still_has(worker):
                                break
                        elif event.id not in self._complete and event.invocation_id == self._run_id:
                            self._speaks = True
                            yield event
                finally:
                    await told.aclose()
                for each in await self._news():
                    yield each
                if self._speaks:
                    self._speaks = False
                    yield None
            pause = _SHORTEST if given else min(pause * 1.5, _LONGEST)
            await asyncio.sleep(pause)

    async def _worker_of(self, row: Row) -> WorkerRow | None:
        if row.status != "running":
            return None
        rows, _ = await self._registry.workers(row.app_name)
        return next((each for each in rows if each.worker == row.worker), None)

    async def _still_has(self, worker: WorkerRow) -> bool:
        row = await self._registry.find(self._run_id)
        return row is not None and row.worker == worker.worker

    async def _news(self, upto: str = "") -> list[Event]:
        """The events of the run that the log has and that were not given yet, up to that one if it is there: parts of
        what comes after it are on their way."""
        app, user, name = self._key
        session = await self._registry.service.get_session(app_name=app, user_id=user, session_id=name)
        return [] if session is None else list(self._unread(session.events, upto))

    def _unread(self, events: list[Event], upto: str) -> Iterator[Event]:
        begin, end = self._read, len(events)
        if upto:
            end = next((index + 1 for index in range(begin, end) if events[index].id == upto), end)
        self._read = end
        for index in range(begin, end):
            event = events[index]
            if event.invocation_id != self._run_id:
                continue
            self._complete.add(event.id)
            self._speaks = False
            if self._left_out:
                self._left_out -= 1
            else:
                yield event
