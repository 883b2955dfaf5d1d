"""What a session service in memory takes for one event, and for one look at a session, as the session grows."""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks.passes import yardstick
from benchmarks.peers import google_contents
from benchmarks.peers.adk_names import WHO, Names


async def measure(names: Names, size: int, repeat: int) -> dict[str, Any]:
    """Median microseconds of `append_event` and of `get_session` at a length of `size` events."""
    service = names.InMemorySessionService()
    session = await service.create_session(**WHO)
    for number in range(size):
        await service.append_event(session, _event(names, number))
    spent: dict[str, list[float]] = {"append_event": [], "get_session": []}
    for number in range(repeat):
        event = _event(names, size + number)
        started = time.perf_counter()
        await service.append_event(session, event)
        appended = time.perf_counter()
        session = await service.get_session(**WHO, session_id=session.id)
        spent["append_event"].append(appended - started)
        spent["get_session"].append(time.perf_counter() - appended)
    rows = {name: {"warm": statistics.median(times) * 1e6} for name, times in spent.items()}
    return {"yardstick": yardstick(), "rows": rows}


def _event(names: Names, number: int) -> Any:
    return names.Event(author="user", invocation_id=f"i{number}", content=google_contents.user())
