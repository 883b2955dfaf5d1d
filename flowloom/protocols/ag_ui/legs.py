"""`whole_run`: what a page takes for one run, which is two of the engine's where tools of ours stand beside the page's.

The engine stops before all calls of an answer in which the page is called. Ours are made at once, by resuming the run;
the model is asked when the page has answered, too (protocols spec §5, In).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing
from typing import Any

from flowloom.context import RunConfig
from flowloom.errors import SessionBusyError
from flowloom.events.event import Event
from flowloom.run_stream import (
    ConfirmationRequested,
    CredentialRequested,
    InputRequested,
    RunFailed,
    RunFinished,
    RunStarted,
    RunStreamEvent,
    RunStreamMapper,
    ToolCallArgumentsCompleted,
    ToolCallFinished,
    ToolCallStarted,
)
from flowloom.runner import Runner, pending_calls

BUSY = SessionBusyError.__name__
_REQUESTS = (ConfirmationRequested, InputRequested, CredentialRequested)
_CALLS = (ToolCallStarted, ToolCallArgumentsCompleted)


class _Leg:
    """One run of the engine's: what it has told, and how it ended."""

    def __init__(self) -> None:
        self.told: set[str] = set()
        self.open: dict[str, str] = {}
        """The names of the calls that have no result."""
        self.end: RunFinished | None = None

    async def events(self, stream: AsyncIterable[RunStreamEvent]) -> AsyncGenerator[RunStreamEvent, None]:
        """What the run tells, but for its end."""
        async for event in stream:
            if isinstance(event, ToolCallStarted):
                self.told.add(event.call_id)
                self.open[event.call_id] = event.name
            elif isinstance(event, ToolCallFinished):
                self.open.pop(event.call_id, None)
            elif isinstance(event, _REQUESTS):
                self.told.add(event.request_id)
            if isinstance(event, RunFinished):
                self.end = event
            else:
                yield event


async def whole_run(
    runner: Runner[Any],
    stream: AsyncIterable[RunStreamEvent],
    config: RunConfig,
    **where: Any,
) -> AsyncGenerator[RunStreamEvent, None]:
    """The run that `stream` tells of, with what is made of it beside calls of the page's, and all that it waits for.

    `runner` and `config`, which names the page's tools, are those of the run; `where` names its user and its session.
    """
    leg = _Leg()
    async for event in leg.events(stream):
        yield event
    end, wanted = leg.end, config.pause_on_tool_calls
    page_tools = wanted if isinstance(wanted, list) else ()
    ours = [call_id for call_id, name in leg.open.items() if name not in page_tools]
    if end is not None and end.status == "paused" and ours and len(ours) < len(leg.open):
        again = runner.run_stream(**where, invocation_id=end.invocation_id, run_config=config)
        async with aclosing(again):
            async for event in leg.events(again):
                if isinstance(event, RunFailed) and event.error_code == BUSY:
                    leg.end = end  # another run has the session, and makes the calls
                    break
                if not isinstance(event, RunStarted):
                    yield event
    if leg.end is not None and leg.end.status == "paused":
        session = await runner.session_service.get_session(app_name=runner.app_name, **where)
        for event in _still_waiting(session.events if session else (), leg):
            yield event
    if leg.end is not None:
        yield leg.end


def _still_waiting(events: Sequence[Event], leg: _Leg) -> list[RunStreamEvent]:
    """What the run waits for since an earlier one, and this one has not told."""
    invocation_id = (leg.end.invocation_id if leg.end is not None else None) or None
    waiting = {pending.id for pending in pending_calls(events, invocation_id)} - leg.told
    found: list[RunStreamEvent] = []
    for event in events:
        if any(call.id in waiting for call in event.get_function_calls()):
            for told in RunStreamMapper().feed(event):
                its_id = (
                    told.request_id if isinstance(told, _REQUESTS) else told.call_id if isinstance(told, _CALLS) else ""
                )
                if its_id in waiting:
                    found.append(told)
    return found
