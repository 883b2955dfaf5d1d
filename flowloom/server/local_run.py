"""`LocalRun`: a run of this process, as the server has it (server spec §4, §9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from flowloom.events import Event
from flowloom.runner.rounds import Rounds
from flowloom.runner.runner import RunArguments, Runner


class RunSource(Protocol):
    """What a served run says, whichever process runs it."""

    @property
    def place(self) -> tuple[int, int]:
        """Where the event stands that was given last: how many events the session has with it, or had before it if it
        is partial; and how many partial ones there were since."""
        ...

    def events(self) -> AsyncGenerator[Event, None]:
        """The events, each stored before it is seen; the one of the message comes first. Raises what ends the run.

        A task that ends with it is to read them.
        """
        ...

    def cancel(self) -> None:
        """Let it end soon, with its last events. Calling it again, or when it is over, is fine."""
        ...


class LocalRun:
    """The `RunSource` of a `runner` of this process, with the `arguments` of `Runner.run_async`. It takes its next step
    when its next event is asked for, and can be cut off at any time."""

    def __init__(self, runner: Runner, arguments: RunArguments) -> None:
        self._invocation = Rounds(runner, **arguments, yield_user_message=True)
        self._invocation.check()
        self._since = 0
        self._reader: asyncio.Task[None] | None = None
        """The task that waits for the next event."""
        self._stopped = self._cut_off = False

    @property
    def place(self) -> tuple[int, int]:
        """See `RunSource.place`."""
        return len(self._invocation.session.events), self._since

    def cancel(self) -> None:
        """Let no agent take another step, and end what is under way: the last events make the history legal."""
        self._stopped = True
        self._invocation.stop("cancelled")
        if self._reader is not None and not self._cut_off:  # once: what makes the history legal is not to be cut off
            self._cut_off = True
            self._reader.cancel()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run it (see `RunSource.events`)."""
        task = asyncio.current_task()
        assert task is not None
        events = self._invocation.events()
        step = events.__anext__()
        try:
            while True:
                self._reader = task
                try:
                    event = await step
                except StopAsyncIteration:
                    return
                finally:
                    self._reader = None
                self._since = self._since + 1 if event.partial else 0
                yield event
                if not self._stopped or self._cut_off:
                    step = events.__anext__()
                    continue
                self._cut_off = True
                if event.partial:
                    step = events.athrow(asyncio.CancelledError())
                else:  # the run ends where it waits next, or is over
                    step = events.__anext__()
                    task.cancel()
        finally:
            await events.aclose()
