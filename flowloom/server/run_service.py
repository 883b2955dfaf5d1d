"""What serves runs: a runner of this process, or whatever has the same five methods (server spec §4, §9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol, Unpack

from flowloom.events import Event
from flowloom.runner.rounds import Rounds
from flowloom.runner.runner import RunArguments, Runner
from flowloom.runner.typed_events import typed_events

if TYPE_CHECKING:
    from flowloom.run_stream import RunStreamEvent


class RunService(Protocol):
    """Runs the agents of one app on its sessions. `run_id` names a run that is under way to `cancel` and `position`;
    `arguments` are those of `RunArguments`.
    """

    def run_async(self, run_id: str, **arguments: Unpack[RunArguments]) -> AsyncGenerator[Event, None]:
        """The events of a run, each stored before it is seen; the one of the message comes first.

        A task that ends with the run is to read them. Raises as `Runner.run_async` does.
        """
        ...

    def run_stream(self, run_id: str, **arguments: Unpack[RunArguments]) -> AsyncGenerator[RunStreamEvent, None]:
        """The same as typed events. What ends the run is told, and not raised."""
        ...

    def answer(self, run_id: str, **arguments: Unpack[RunArguments]) -> AsyncGenerator[Event, None]:
        """`run_async` for a message of answers: the run that has asked goes on."""
        ...

    def cancel(self, run_id: str) -> None:
        """Stop a run. Its last events, which make the history legal, come as the others; stopping one that is over is
        fine."""
        ...

    def position(self, run_id: str) -> int:
        """How many events the log of the run's session has, as far as the run knows."""
        ...


class LocalRuns:
    """The `RunService` of a runner of this process, `runner`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._running: dict[str, _LocalRun] = {}

    def run_async(self, run_id: str, **arguments: Unpack[RunArguments]) -> AsyncGenerator[Event, None]:
        """The events of a run (see `RunService.run_async`)."""
        return self._events(run_id, Rounds(self._runner, **arguments, yield_user_message=True))

    def run_stream(self, run_id: str, **arguments: Unpack[RunArguments]) -> AsyncGenerator[RunStreamEvent, None]:
        """The typed events of a run (see `RunService.run_stream`)."""
        invocation = Rounds(self._runner, **arguments)
        invocation.stream_models()
        return typed_events(invocation, self._events(run_id, invocation))

    answer = run_async

    def cancel(self, run_id: str) -> None:
        """Stop a run (see `RunService.cancel`)."""
        run = self._running.get(run_id)
        if run is not None:
            run.cancel()

    def position(self, run_id: str) -> int:
        """How many events the session has (see `RunService.position`)."""
        return len(self._running[run_id].invocation.session.events)

    async def _events(self, run_id: str, invocation: Rounds) -> AsyncGenerator[Event, None]:
        run = self._running[run_id] = _LocalRun(invocation)
        events = run.events()
        try:
            async for event in events:
                yield event
        finally:
            del self._running[run_id]
            await events.aclose()


class _LocalRun:
    """A run that takes its next step when its next event is asked for, and can be cut off at any time."""

    def __init__(self, invocation: Rounds) -> None:
        self.invocation = invocation
        self._reader: asyncio.Task[None] | None = None
        """The task that waits for the next event."""
        self._stopped = self._cut_off = False

    def cancel(self) -> None:
        """Let no agent take another step, and end what is under way."""
        self._stopped = True
        self.invocation.stop("cancelled")
        if self._reader is not None and not self._cut_off:  # once: what makes the history legal is not to be cut off
            self._cut_off = True
            self._reader.cancel()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run it."""
        task = asyncio.current_task()
        assert task is not None
        events = self.invocation.events()
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
