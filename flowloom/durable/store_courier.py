"""`StoreCourier`: the courier that needs nothing but the store (durable design, sections 2 and 3).

Workers find ready runs in the registry: when they are rung by whoever has made one ready, on this machine by the direct
channel, from others by the database's notices, and otherwise by looking from time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from flowloom.durable.callers import Callers
from flowloom.durable.courier import Deliver, Free
from flowloom.durable.registry import Registry
from flowloom.errors import ConfigurationError
from flowloom.sessions import BaseSessionService

POLL = 1.0
"""Seconds between two looks of an idle worker that is not rung."""
BLOCKED = 0.05
"""Seconds until the next look if a ready run could not be taken, because its session is in use."""


class StoreCourier:
    """Brings runs by the store that they are in. `session_service` is that of the sessions, `app_name` whose runs these
    are, `poll` the seconds between two looks of an idle worker.

    Raises `ConfigurationError` for a store that is not in SQLite or PostgreSQL, and for a `poll` that is not above 0.
    """

    def __init__(self, session_service: BaseSessionService, app_name: str, *, poll: float = POLL) -> None:
        if not poll > 0:
            raise ConfigurationError(f"`poll` is above 0 seconds, not {poll:g}.")
        self._registry = Registry(session_service)
        self._callers = Callers(self._registry, app_name)
        self._poll = poll
        self._rung = asyncio.Event()
        self._listens = False
        """Whether the worker has room, and looks when it is rung."""

    def ring(self) -> None:
        """Have the worker look at once."""
        self._rung.set()

    async def offer(self, run_ids: Sequence[str]) -> None:
        """Ring the workers (see `Courier.offer`); `run_ids` is not looked at, for all of them see what is ready."""
        if not run_ids:
            return
        self._rung.set()
        if not self._listens or len(run_ids) > 1:
            await self._callers.ring()

    async def serve(self, handle: Deliver, free: Free) -> None:
        """See `Courier.serve`: `handle` takes runs, `free` tells for how many there is room."""
        try:
            while True:
                await free()
                self._listens = True
                self._rung.clear()
                if await handle():
                    self._listens = False
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):  # `wait_for` of Python 3.11 may lose a cancel
                        await self._rung.wait()
        finally:
            self._listens = False

    async def withdraw(self, run_id: str) -> None:
        """See `Courier.withdraw`: `run_id` is not ready any more, which is all that counts here."""

    async def check(self) -> None:
        """See `Courier.check`. Raises `StorageError` if the store cannot be used."""
        await self._registry.prepare()

    async def close(self) -> None:
        """See `Courier.close`."""
        await self._callers.close()
