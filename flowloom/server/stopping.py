"""How a server stops: no new runs, some seconds for those that are under way, then an end (server spec §9)."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

from fastapi import FastAPI

from flowloom.server.runs import Runs
from flowloom.server.served import Served

Handler = Callable[[int, FrameType | None], Any]
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@asynccontextmanager
async def ends_runs(app: FastAPI) -> AsyncGenerator[None]:
    """No run outlives the server: while it is open, the first signal to stop gives runs their grace before the
    server's own handler is told, and the second one ends it at once."""
    served: Served = app.state.served
    stop = _Stop(served.runs, served.settings.shutdown_grace)
    stop.listen()
    try:
        yield
    finally:
        stop.close()
        await served.runs.close(0.0)


class _Stop:
    """Stands before the handlers of the signals that stop a process."""

    def __init__(self, runs: Runs, grace: float) -> None:
        self._runs, self._grace = runs, grace
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Handler] = {}
        """The handlers that the server has set."""
        self._closing: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Take the signals of a server that handles them; only the main thread has any."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            handler: Any = signal.getsignal(number)
            if callable(handler) and handler is not signal.default_int_handler:
                self._before[number] = handler
                signal.signal(number, self._signalled)

    def close(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._closing is not None:
            self._closing.cancel()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._stop, number)

    def _stop(self, number: int) -> None:
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(number), name="flowloom shutdown")
        else:
            self._runs.abort()
            interrupt = self._before.get(signal.SIGINT, self._before[number])
            for _ in range(2):  # uvicorn waits for nothing when it is interrupted twice
                interrupt(signal.SIGINT, None)

    async def _close(self, number: int) -> None:
        try:
            await self._runs.close(self._grace)
        finally:
            self._before[number](number, None)
