"""Ending what a run has begun, however often the tasks that wait for that are cancelled."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from flowloom.errors import RunLostError

_log = logging.getLogger("flowloom.sessions")
T = TypeVar("T")


async def all_ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Return when the tasks have ended, however; a cancellation meanwhile is raised then."""
    cancelled: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # it is not raised, and that is meant
    if cancelled is not None:
        raise cancelled


async def all_of(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """What works give that run at once. The first error cancels the others, and is raised when they have ended; that
    the run has lost its session goes before any other."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        first = (errors.subgroup(RunLostError) or errors).exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise first  # not in the handler, which would put the group in the place of what caused the error


async def to_its_end(work: Coroutine[Any, Any, T], *, hurried: bool, grace: float, late: str) -> T | None:
    """What `work` gives: it is done to its end, and a cancellation meanwhile is raised then.

    Once the caller is cancelled, or if it is `hurried`, the work has `grace` seconds. After them it is cancelled, a
    warning says `late`, and None is returned.
    """
    caller, task = asyncio.current_task(), asyncio.get_running_loop().create_task(work)
    hurried = hurried or (caller is not None and caller.cancelling() > 0)
    cancelled: asyncio.CancelledError | None = None
    end = time.monotonic() + grace if hurried else math.inf
    while not task.done() and end > time.monotonic():
        try:
            await asyncio.wait((task,), timeout=None if end == math.inf else end - time.monotonic())
        except asyncio.CancelledError as error:
            cancelled, end = error, min(end, time.monotonic() + grace)
    in_time = task.done()
    if not in_time:
        _log.warning("%s within %g seconds.", late, grace)
        task.cancel()
    if cancelled is not None or not in_time:
        await all_ended((task,))
    if cancelled is not None:
        raise cancelled
    return task.result() if in_time else None
