"""`RunHandle`: a run as a thing that one holds, looks at, pauses and stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Generic, Literal, Self

from flowloom.agents.base_agent import OutputT
from flowloom.errors import ConfigurationError
from flowloom.events import Event
from flowloom.objects.event_loop import in_event_loop
from flowloom.runner.rounds import Rounds

if TYPE_CHECKING:
    from flowloom.run_stream import RunStreamEvent
    from flowloom.runner.result import RunResult

_running: set[asyncio.Task[None]] = set()
"""The runs that are under way: an event loop alone does not keep a task without a reference to it."""


class RunHandle(Generic[OutputT]):
    """A run that proceeds by itself, in a task that ends with it: an async iterator of its events, to be read once.

    `stream` gives them as typed events. `async with` the handle to have the run cancelled when the block is left before
    it is over. Raises `ConfigurationError` without a running event loop.
    """

    def __init__(self, rounds: Rounds) -> None:
        if not in_event_loop():
            raise ConfigurationError(
                "A run can be started within an event loop only. Call `start` in a coroutine, or `run_to_result_sync`."
            )
        rounds.check()
        self._rounds = rounds
        self._events: list[Event] = []
        self._taken = 0
        """How many of them the iterator has given."""
        self._news: asyncio.Event | None = None
        """Set when there is another event, or the end; None while no reader waits for that."""
        self._complete = self._cut_off = False
        self._task = asyncio.create_task(self._run(), name="flowloom run")
        _running.add(self._task)
        self._task.add_done_callback(self._end)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.cancel()
        await self.result()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while self._taken >= len(self._events):
            if not await self._goes_on():
                raise StopAsyncIteration
        self._taken += 1
        return self._events[self._taken - 1]

    def stream(self) -> AsyncGenerator[RunStreamEvent, None]:
        """The typed events of the run, from its first to the `RunFinished` that tells how it ended.

        What ends the run is not raised. The models stream from the next call on, so ask for it before anything is
        awaited; a `run_config` that was given to `start` decides instead. There may be several readers, each of which
        gets all events. Closing the stream, or cancelling its reader, does not end the run; `cancel` does.
        """
        self._rounds.stream_models()
        return self._rounds.typed(self._all_events())

    async def _all_events(self) -> AsyncGenerator[Event, None]:
        given = 0
        while given < len(self._events) or await self._goes_on():
            for event in self._events[given:]:
                given += 1
                yield event

    async def _goes_on(self) -> bool:
        """Wait for the next event, or for the end; False if the run is over. Raises what ended it, unless it was
        cancelled."""
        if not self.done:
            self._news = self._news or asyncio.Event()
            await self._news.wait()
            return True
        error = self._rounds.error
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        return False

    def _tell_readers(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    @property
    def invocation_id(self) -> str:
        """The id of the invocation, for resuming it later; empty until the run has begun."""
        return self._rounds.current_id

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self._task.done()

    def cancel(self, mode: Literal["now", "after_step"] = "now") -> None:
        """Stop the run: at once, or when the model's answer and its tool calls are complete (`mode="after_step"`).

        Calls that are cut off are answered with an error, so that the history stays legal, and one event tells that the
        run was cancelled, and after what. A run that is over stays as it is.
        """
        if self.done:
            return
        self._rounds.stop("cancelled")
        if mode == "now" and not self._cut_off:  # once: what makes the history legal is not to be cut off
            self._cut_off = True
            self._task.cancel()

    def pause(self) -> None:
        """Let the run end before its next model call. `run_async(invocation_id=...)` resumes it, at any time, in
        any process."""
        if not self.done:
            self._rounds.stop("paused")

    async def result(self) -> RunResult[OutputT]:
        """What came of the run, when it is over. It never raises what ended the run: see `RunResult.raise_for_status`.

        Cancelling a task that waits for it does not cancel the run.
        """
        await asyncio.wait({self._task})
        return self._rounds.result(self._events)

    async def _run(self) -> None:
        events = self._rounds.events()
        step = events.__anext__()
        try:
            while True:
                event = await step
                self._events.append(event)
                step = events.__anext__()
                if self._news is not None:
                    self._tell_readers()
                    try:
                        await asyncio.sleep(0)  # a task that waits for an event sees it before the run continues
                    except asyncio.CancelledError as error:
                        if event.partial:
                            step = events.athrow(error)
                        else:  # the run ends before its next step, or is over
                            self._task.uncancel()
                            self._task.cancel()
        except StopAsyncIteration:
            self._complete = True
        except (Exception, asyncio.CancelledError) as error:
            self._rounds.error = error
        finally:
            await events.aclose()

    def _end(self, task: asyncio.Task[None]) -> None:
        _running.discard(task)
        if task.cancelled() and not self._complete:  # before it has begun
            self._rounds.error = self._rounds.error or asyncio.CancelledError()
        self._tell_readers()
