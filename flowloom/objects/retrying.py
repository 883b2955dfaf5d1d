"""The loop in which what failed is tried again: model calls, on the wire and by `RetryModel`, and tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def retried(
    attempt: Callable[[int], Awaitable[T]],
    pause_after: Callable[[int, Exception], float | None],
    sleep: Callable[[float], Awaitable[None]],
) -> T:
    """What the first attempt gives that does not fail.

    `attempt` is called with its number, from 1; one that fails leaves nothing open. After a failure `pause_after` is
    asked with that number and the error, and says how many seconds `sleep` waits before the next attempt; with None
    the error is raised. A cancellation ends it at once.
    """
    number = 0
    while True:
        number += 1
        try:
            return await attempt(number)
        except Exception as error:
            pause = pause_after(number, error)
            if pause is None:
                raise
        await sleep(pause)
