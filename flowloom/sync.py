"""Running asynchronous code from code without an event loop: one loop per thread, which stays (no "loop is closed")."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import suppress
from typing import Any, Final, TypeVar

from flowloom.errors import ConfigurationError

_T = TypeVar("_T")


class _Anchor:
    """Dies with its thread, and with the generators that were begun in it."""


class _End:
    """Marks the end of an async generator."""


_END: Final = _End()


class _Loops(threading.local):
    """The loop of each thread that called one of the functions here; closed when its thread, or the program, ends."""

    anchor: _Anchor | None = None
    loop: asyncio.AbstractEventLoop | None = None


_loops = _Loops()


def _within_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _loop(caller: str) -> asyncio.AbstractEventLoop:
    if _within_loop():
        raise ConfigurationError(
            f"`{caller}` was called within an event loop. Use the async form there: `run_async` for `run`, and the "
            f"names without `_sync`."
        )
    loop = _loops.loop
    if loop is None or loop.is_closed():
        loop = _loops.loop = asyncio.new_event_loop()
        _loops.anchor = _Anchor()
        weakref.finalize(_loops.anchor, _close, loop)
    return loop


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop, and before it what still works in the background."""
    if not _within_loop() and not loop.is_running():
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _complete(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done():  # the program was interrupted: nothing may stay behind half done
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                loop.run_until_complete(task)
        raise


def run_sync(work: Coroutine[Any, Any, _T], caller: str) -> _T:
    """The result of `work`. Raises `ConfigurationError` within a running event loop; `caller` is what it names."""
    try:
        loop = _loop(caller)
    except ConfigurationError:
        work.close()
        raise
    return _complete(loop, work)


def iterate_sync(items: AsyncGenerator[_T, None], caller: str) -> Generator[_T, None, None]:
    """The items of an async generator, which is closed when this one is. Raises as `run_sync` does."""
    loop = _loop(caller)
    anchor = _loops.anchor  # the loop is there for as long as this generator is, whichever thread ends it
    try:
        while True:
            item = _complete(loop, _next(items))
            if isinstance(item, _End):
                return
            yield item
    finally:
        if _within_loop():  # it was dropped there
            closing = threading.Thread(target=_complete, args=(loop, _closed(items)), name="flowloom: closing a run")
            closing.start()
            closing.join()
        else:
            _complete(loop, _closed(items))
        del anchor


async def _next(items: AsyncGenerator[_T, None]) -> _T | _End:
    return await anext(items, _END)


async def _closed(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()
