"""`BackgroundCompaction`: sessions are summarised after their runs, while the user reads the answer."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from flowloom.compaction.config import EventsCompactionConfig
from flowloom.compaction.session import compact_session
from flowloom.models.base_llm import BaseLlm
from flowloom.sessions.service import BaseSessionService
from flowloom.sessions.session import Session

_log = logging.getLogger("flowloom.compaction")
_Key = tuple[str, str, str]


class _Job(NamedTuple):
    session: Session
    service: BaseSessionService
    model: BaseLlm | str | None


class BackgroundCompaction:
    """Summarises sessions after their runs, one task for each session at a time.

    `after_run` starts the task and returns at once; the next run on the session need not wait for it. A run that ends
    while its session is being summarised has it looked at once more. Close it (`aclose`) before the event loop ends:
    no task is left then. `model` writes the summaries if neither `config` nor `after_run` names one.
    """

    def __init__(self, config: EventsCompactionConfig, model: BaseLlm | str | None = None) -> None:
        self.config = config
        self.model = model
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._next: dict[_Key, _Job] = {}
        self._closed = False

    def after_run(self, session: Session, service: BaseSessionService, model: BaseLlm | str | None = None) -> None:
        """Take note that a run on `session` has ended; within an event loop. After `aclose` it does nothing."""
        if self._closed:
            return
        key = (session.app_name, session.user_id, session.id)
        job = _Job(session, service, model or self.model)
        if key in self._tasks:
            self._next[key] = job
        else:
            self._tasks[key] = asyncio.get_running_loop().create_task(self._work(key, job))

    async def _work(self, key: _Key, job: _Job | None) -> None:
        try:
            while job is not None:
                await compact_session(job.session, job.service, self.config, job.model)
                job = self._next.pop(key, None)
        except Exception as error:  # of the store: the run is over, and has no caller to tell
            _log.warning("Session `%s` could not be summarised: %s: %s", key[2], type(error).__name__, error)
        finally:
            self._next.pop(key, None)
            del self._tasks[key]

    async def idle(self) -> None:
        """Return when nothing is being summarised."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def aclose(self, timeout: float = 10.0) -> None:
        """Wait for what is being summarised, at most `timeout` seconds; then cancel it. Nothing is started after."""
        self._closed = True
        self._next.clear()
        tasks = list(self._tasks.values())
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=max(timeout, 0.0))
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
