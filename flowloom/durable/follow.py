"""`Follower`: the events of a run as they come, from whichever process runs it (durable design, section 7).

The log is the truth, and the direct channel the haste: it says when to read, and has the parts of messages, which the
log has not. A part that comes late, of a message that is complete, is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import NamedTuple

from flowloom.durable.callers import Callers, Part
from flowloom.durable.channel import ATTEMPT
from flowloom.durable.records import OVER, Row, WorkerRow
from flowloom.durable.registry import Registry, not_found
from flowloom.events import Event
from flowloom.sessions.leases import Key

_SHORTEST, _LONGEST = 0.01, 0.25
"""Seconds between two looks at a run that no worker in reach has."""


class Told(NamedTuple):
    """What a run says: a complete `event`, which is that of the number `stored` in its session; a partial one, of the
    number `since` that, the same for all who follow; or None, when what was being said comes to no end, because another
    worker goes on."""

    event: Event | None
    stored: int = 0
    since: int = 0


class Follower:
    """Follows a run to its end, or to its next pause: without its first `after` events, and those before the one that
    `place` names, whose parts may come once more."""

    def __init__(
        self,
        registry: Registry,
        callers: Callers,
        key: Key,
        run_id: str,
        *,
        deltas: bool,
        after: int = 0,
        place: tuple[int, int] = (0, 0),
    ) -> None:
        self._registry = registry
        self._callers = callers
        self._key = key
        self._run_id = run_id
        self._deltas = deltas
        self._left_out = after
        self._from = place[0]
        self._at = (place[0], max(place[1] - 1, 0))
        """Where what was given last stands."""
        self._torn: set[str] = set()
        """The messages of which parts are missing: the rest would not be what was said."""
        self._looked = 0
        """For how many events of the session the log was read, whether it had them already or not."""
        self._read = 0
        """How many events of the session were looked at."""
        self._complete: set[str] = set()
        """The events that were given, or left out."""
        self._speaks = False
        """Whether parts of a message were given that is not complete yet."""

    async def events(self) -> AsyncGenerator[Told, None]:
        """What it says; parts of messages if they were asked for."""
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
                    async for part in told:
                        given = True
                        if isinstance(part, str):
                            for each in await self._news(part):
                                yield each
                            if not part and not await self._still_has(worker):
                                break
                            continue
                        if part.stored > max(self._read, self._looked):  # what it follows comes first
                            self._looked = part.stored
                            for each in await self._news(first=part.stored):
                                yield each
                        if self._takes(part):
                            self._speaks = True
                            yield Told(*part)
                finally:
                    await told.aclose()
                for each in await self._news():
                    yield each
                if self._speaks:
                    self._speaks = False
                    yield Told(None)
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

    def _takes(self, part: Part) -> bool:
        """Whether a part is of what is being said, and comes behind what was given; not if one before it is missing."""
        event, at = part.event, (part.stored, part.since)
        if event.id in self._complete or event.invocation_id != self._run_id or at <= self._at:
            return False
        follows = part.since % ATTEMPT == 1 or at <= (self._at[0], self._at[1] + 1)
        self._at = at
        if not follows:
            self._torn.add(event.id)
        return event.id not in self._torn

    async def _news(self, upto: str = "", first: int | None = None) -> list[Told]:
        """The events of the run that the log has and that were not given yet, up to that one if it is there, or up to
        the `first` of the session: parts of what comes after it are on their way."""
        app, user, name = self._key
        session = await self._registry.service.get_session(app_name=app, user_id=user, session_id=name)
        return [] if session is None else list(self._unread(session.events[:first], upto))

    def _unread(self, events: list[Event], upto: str) -> Iterator[Told]:
        begin, end = self._read, len(events)
        if upto:
            end = next((index + 1 for index in range(begin, end) if events[index].id == upto), end)
        self._read = max(begin, end)
        for index in range(begin, end):
            event = events[index]
            if event.invocation_id != self._run_id:
                continue
            self._complete.add(event.id)
            self._speaks = False
            self._at = max(self._at, (index + 1, 0))
            if self._left_out > 0:
                self._left_out -= 1
            elif index + 1 >= self._from:
                yield Told(event, index + 1)
