"""Running asynchronous code from synchronous code: one loop per thread, which stays (no "loop is closed").

Within a running event loop, as in a notebook, the same is done in a second thread, while the first one waits.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent import futures
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from flowloom.errors import ConfigurationError
from flowloom.objects.event_loop import in_event_loop
from flowloom.objects.forks import in_forked_child
from flowloom.sessions.leases import standing_still

_T = TypeVar("_T")


class _Anchor:
    """Holds the loop of a thread, and dies with the thread and with the generators that were begun in it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        _every_loop.add(self.loop)
        weakref.finalize(self, _close, self.loop, os.getpid())


class _Loops(threading.local):
    """The loop of each thread that called one of the functions here; closed when its thread, or the program, ends."""

    anchor: _Anchor | None = None
    beside: futures.ThreadPoolExecutor | None = None


_loops = _Loops()


def _call_beside(function: Callable[[], _T]) -> _T:
    """What a function gives or raises in a second thread: for one in which a loop is running already. It ends with
    this one."""
    if _loops.beside is None:
        _loops.beside = futures.ThreadPoolExecutor(1, "flowloom sync calls")
    return _loops.beside.submit(function).result()


def _loop() -> _Anchor:
    """The loop for what is begun here, which is there for as long as the anchor is held."""
    return _call_beside(_own_loop) if in_event_loop() else _own_loop()


def _own_loop() -> _Anchor:
    if _loops.anchor is None or _loops.anchor.loop.is_closed():
        _loops.anchor = _Anchor()
    return _loops.anchor


_every_loop: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
_begun: dict[int, tuple[asyncio.AbstractEventLoop, AsyncGenerator[Any, None]]] = {}
"""What is being iterated, with its loop."""


_of_parent: list[asyncio.AbstractEventLoop] = []


@in_forked_child
def _leave_to_parent() -> None:
    """In a forked process: its copies of the loops share what the parent's wait on, so they may not be touched."""
    _begun.clear()
    _loops.beside = None  # its thread is not there
    _of_parent.extend(_every_loop)
    for loop in _of_parent:
        for name, forked in (("is_closed", lambda: True), ("close", lambda: None)):
            with suppress(AttributeError):  # a loop that is no object of Python's
                setattr(loop, name, forked)


def _close_begun() -> None:
    """The program ends: close what is iterated still, each from outside in, while there are stores to write to."""
    while _begun:
        loop, items = _begun.popitem()[1]
        if not loop.is_closed() and not loop.is_running():
            _complete(loop, items.aclose())


def _close(loop: asyncio.AbstractEventLoop, process: int) -> None:
    """Close a loop of `process`, and before it what still works in the background.

    A fork ends the other threads, and so their anchors, in the child, before anything can be told to it.
    """
    if loop.is_closed() or process != os.getpid():
        return
    if not in_event_loop() and not loop.is_running():
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _complete(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
    context = copy_context()  # the caller's, whichever thread runs the loop
    if in_event_loop():
        context.run(standing_still.set, (*standing_still.get(), threading.get_ident()))
    task = loop.create_task(work, context=context)
    try:
        return _run(loop, task)
    except BaseException:
        if not task.done():  # the program was interrupted: nothing may stay behind half done
            loop.call_soon_threadsafe(task.cancel)
            with suppress(asyncio.CancelledError, Exception):
                _run(loop, task)
        raise


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[_T]) -> _T:
    if in_event_loop():
        return _call_beside(lambda: loop.run_until_complete(task))
    return loop.run_until_complete(task)


def run_sync(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`, which runs in a loop that stays; within a running loop, in another thread's."""
    return _complete(_loop().loop, work)


def iterate_sync(items: AsyncGenerator[_T, None]) -> Generator[_T, None, None]:
    """The items of an async generator, which is closed when this one is, or when the program ends.

    Raises `ConfigurationError` in a process that was forked after the first item.
    """
    anchor = _loop()  # the loop is there for as long as this generator is, whichever thread ends it
    loop = anchor.loop
    _begun[id(items)] = loop, items
    atexit.unregister(_close_begun)
    atexit.register(_close_begun)  # the last to come is the first to be called
    try:
        while True:
            if loop.is_closed():
                raise ConfigurationError(
                    "This run was begun before the process was forked, or its program has ended. Begin one here."
                )
            try:
                item = _complete(loop, _next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        if _begun.pop(id(items), None) is None or loop.is_closed():
            pass  # the program ends and closes it, or the process was forked
        elif loop.is_running():  # it was dropped by something that runs there
            loop.call_soon_threadsafe(loop.create_task, items.aclose())
        else:
            _complete(loop, items.aclose())
        del anchor


async def _next(items: AsyncGenerator[_T, None]) -> _T:
    return await anext(items)  # in the loop, which is to be the one that closes them if they are dropped
