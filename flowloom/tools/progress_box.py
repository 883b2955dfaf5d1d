"""`ProgressBox`: how far the calls of an answer are, for who follows the run."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import Any

from flowloom.context import Context
from flowloom.events.event import Event
from flowloom.log.marks import TOOL_PROGRESS


class ProgressBox:
    """Takes what calls tell by `Context.report_progress`, in any thread, and puts it into `outbox`, as what makes the
    event when that is read.

    How far a call is, is a state: what was not read yet is replaced by what the call tells next. So there is one report
    of each call at most, and the last one is always read.
    """

    def __init__(self, outbox: asyncio.Queue[Any]) -> None:
        self._outbox, self._loop = outbox, asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._latest: dict[str, tuple[Context, dict[str, Any]]] = {}
        self._announced: set[str] = set()
        """The calls of which a report is in the outbox."""

    def __call__(self, context: Context, told: dict[str, Any]) -> None:
        """Take what the call of `context` has `told`."""
        call_id: str = told["call_id"]
        self._latest[call_id] = context, told  # at first: if it is read meanwhile, then this
        if call_id in self._announced:
            return
        self._announced.add(call_id)
        put = partial(self._outbox.put_nowait, partial(self._event, call_id))
        if threading.get_ident() == self._thread:
            put()
            return
        with suppress(RuntimeError):  # the thread was given up, and its loop has ended
            self._loop.call_soon_threadsafe(put)

    def _event(self, call_id: str) -> Event:
        self._announced.discard(call_id)
        context, told = self._latest[call_id]
        return context.inside.new_event({"partial": True, "custom_metadata": {TOOL_PROGRESS: told}})
