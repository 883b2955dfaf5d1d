"""`RunHandle`: a run as a thing that one holds, looks at, pauses and stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal, Self

from flowloom.errors import ConfigurationError
from flowloom.events import Event
from flowloom.invocation import Invocation
from flowloom.run_result import RunResult

_running: set[asyncio.Task[None]] = set()
"""The runs that are under way: an event loop alone does not keep a task that nobody holds."""


class RunHandle:
    """A run that goes on by itself, in a task that ends with it: an async iterator of its events, to be read once.

    `async with` it to have it cancelled when the block is left before it is over. Raises `ConfigurationError` without a
    running event loop.
    """

    def __init__(self, invocation: Invocation) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise ConfigurationError(
                "A run can be started within an event loop only. Call `start` in a coroutine, or `run_to_result_sync`."
            ) from error
        self._invocation = invocation
        self._events: list[Event] = []
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._cut_off = False
        self._task = loop.create_task(self._run(), name="flowloom run")
        _running.add(self._task)
        self._task.add_done_callback(self._end)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if not self._task.done():
            self.cancel()
        await self.result()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self._queue.get()
        if event is None:
            self._queue.put_nowait(None)  # whoever asks again learns the same
            error = self._invocation.error
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error
            raise StopAsyncIteration
        return event

    @property
    def invocation_id(self) -> str:
        """The id of the invocation, for going on with it later; empty until the run has begun."""
        return self._invocation.invocation_id

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self._task.done()

    def cancel(self, mode: Literal["now", "after_step"] = "now") -> None:
        """Stop the run: at once, or when the model's answer and its tool calls are complete.

        Calls that are cut off are answered with an error, so that the history stays legal, and one event tells that the
        run was cancelled, and after what. A run that is over stays as it is.
        """
        if self._task.done():
            return
        self._invocation.stop("cancelled")
        if mode == "now" and not self._cut_off:  # once: what makes the history legal is not to be cut off
            self._cut_off = True
            self._task.cancel()

    def pause(self) -> None:
        """Let the run end before its next model call. `run_async(invocation_id=...)` goes on with it, at any time, in
        any process."""
        if not self._task.done():
            self._invocation.stop("paused")

    async def result(self) -> RunResult:
        """What came of the run, when it is over. It never raises what ended the run: see `RunResult.raise_for_status`.

        Cancelling who waits for it does not cancel the run.
        """
        await asyncio.wait({self._task})
        return self._invocation.result(self._events)

    async def _run(self) -> None:
        events = self._invocation.events()
        try:
            async for event in events:
                self._events.append(event)
                self._queue.put_nowait(event)
        except (Exception, asyncio.CancelledError) as error:
            self._invocation.failed(error)
        finally:
            await events.aclose()

    def _end(self, task: asyncio.Task[None]) -> None:
        _running.discard(task)
        if task.cancelled():  # before it has begun
            self._invocation.failed(asyncio.CancelledError())
        self._queue.put_nowait(None)
