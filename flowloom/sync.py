"""Running asynchronous code from code without an event loop: one loop per thread, which stays (no "loop is closed")."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, TypeVar

from flowloom.errors import ConfigurationError

_T = TypeVar("_T")


class _Anchor:
    """Dies with its thread."""


class _Loops(threading.local):
    """The loop of each thread that has called one of the functions here; closed when its thread, or the program, ends."""

    anchor: _Anchor | None = None
    loop: asyncio.AbstractEventLoop | None = None


_loops = _Loops()


def _loop(caller: str) -> asyncio.AbstractEventLoop:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise ConfigurationError(
            f"`{caller}` was called within an event loop. Use the async form there: `run_async` for `run`, and the names without `_sync`."
        )
    loop = _loops.loop
    if loop is None or loop.is_closed():
        loop = _loops.loop = asyncio.new_event_loop()
        _loops.anchor = _Anchor()
        weakref.finalize(_loops.anchor, loop.close)
    return loop


def run_sync(work: Coroutine[Any, Any, _T], caller: str) -> _T:
    """The result of `work`. Raises `ConfigurationError` within a running event loop; `caller` is what it names."""
    try:
        loop = _loop(caller)
    except ConfigurationError:
        work.close()
        raise
    return loop.run_until_complete(work)


def iterate_sync(items: AsyncGenerator[_T, None], caller: str) -> Generator[_T, None, None]:
    """The items of an async generator, which is closed when this one is. Raises as `run_sync` does."""
    loop = _loop(caller)
    try:
        while True:
            try:
                item = loop.run_until_complete(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        loop.run_until_complete(items.aclose())
