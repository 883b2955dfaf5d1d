"""How far a call is: for the run stream, and for a callback of the program (protocols spec §1, Progress)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

from flowloom.context import Context
from flowloom.protocols.mcp.tool import McpTool

_log = logging.getLogger("flowloom.mcp")
MOST_OFTEN = 0.1
"""At least so many seconds pass between two reports to the run stream; the last one always comes."""


class ProgressReports:
    """The reports of one call of `tool`, whose place is `context`."""

    def __init__(self, tool: McpTool, context: Context) -> None:
        self._context = context
        self._latest: tuple[float, float | None, str | None] | None = None
        self._next = 0.0
        self._callback = _callback_of(tool, context)

    async def report(self, done: float, total: float | None, message: str | None) -> None:
        """A report of the server: `done` of a `total`, with a `message`."""
        now = asyncio.get_running_loop().time()
        self._latest = (done, total, message)
        if now >= self._next:
            self._next = now + MOST_OFTEN
            self.end()
        if self._callback is not None:
            try:
                answer = self._callback(done, total, message)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                _log.exception("The progress callback failed.")

    def end(self) -> None:
        """Tell of what was held back."""
        latest, self._latest = self._latest, None
        if latest is not None:
            self._context.report_progress(*latest)


def _callback_of(tool: McpTool, context: Context) -> Any:
    """The program's callback; what is no coroutine function makes one for each call."""
    given: Any = tool.toolset.progress_callback
    if given is None or any(map(inspect.iscoroutinefunction, (given, type(given).__call__))):
        return given
    return given(tool.raw_mcp_tool.name, callback_context=context)
