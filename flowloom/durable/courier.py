"""`Courier`: brings ready runs to live workers (durable design, section 2)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Protocol

from flowloom.errors import FlowloomError

_log = logging.getLogger("flowloom.durable")


class Deliver(Protocol):
    """A worker's hand: takes runs that were brought."""

    async def __call__(self, run_ids: Sequence[str] | None = None) -> Sequence[Awaitable[None]]:
        """Claim the runs of `run_ids`, or without them the first ready ones, and begin them.

        What is returned ends with the legs that were begun, and never raises. A run that is not ready, because it was
        brought twice or is over, is not among them.
        """
        ...


class Free(Protocol):
    """How many more runs a worker can take."""

    async def __call__(self) -> int:
        """Wait until there is a free place; how many there are."""
        ...


class Courier(Protocol):
    """Brings ready runs to live workers, at least once, and in no order that anything depends on.

    The claim in the registry makes a doubled delivery harmless, and each worker offers runs again that stay ready for
    long, which makes a lost one good. One courier serves one worker, or the clients of one `RunClient`.
    """

    async def offer(self, run_ids: Sequence[str]) -> None:
        """The runs of `run_ids` are ready: bring each to a worker. It may be called again for the same run, and in any
        process."""
        ...

    async def serve(self, handle: Deliver, free: Free) -> None:
        """Bring runs to this worker by `handle`, as long as it is `free`, until the task is cancelled."""
        ...

    async def withdraw(self, run_id: str) -> None:
        """The run `run_id` was cancelled before it began: it need not be brought any more."""
        ...

    async def check(self) -> None:
        """Raise a `FlowloomError` that says what to do if the courier cannot work here."""
        ...

    async def close(self) -> None:
        """Let go of what is held. Closing twice is fine."""
        ...


def not_offered(run_ids: Sequence[str], error: Exception) -> None:
    """Log that an offer has failed, which is no failure of the runs: a sweep offers them again."""
    told = None if isinstance(error, FlowloomError) else error
    _log.warning(
        "%d ready runs could not be offered; they are again, in a while: %s", len(run_ids), error, exc_info=told
    )
