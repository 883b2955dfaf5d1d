"""A TCP server of a test, on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

HERE = "127.0.0.1"
Converse = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(converse: Converse, **options: Any) -> AsyncGenerator[int]:
    """The port of a server that has `converse` talk with each caller, and hangs up when that is over; in the end it
    hangs up on all, so that no task and no connection is left. The `options` are those of `asyncio.start_server`."""
    talks: set[asyncio.Future[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.ensure_future(converse(reader, writer))
        talk.add_done_callback(lambda _: writer.close())
        writers.append(writer)
        talks.add(talk)

    server = await asyncio.start_server(accept, HERE, 0, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        while accepting := {task for task in asyncio.all_tasks() if _accepts(task)}:
            # of these no talk has begun yet; asyncio never closes the socket of one whose server is closed before
            _, shaking_hands = await asyncio.wait(accepting, timeout=1)
            await _end(shaking_hands)
        server.close()
        await asyncio.sleep(0)
        await _end(talks)
        for writer in writers:  # a talk that was cancelled before it began has closed nothing
            writer.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)


def _accepts(task: asyncio.Task[Any]) -> bool:
    """Whether asyncio has a connection made in this task, that a server was asked for."""
    return getattr(task.get_coro(), "__name__", "") == "_accept_connection2"


async def _end(tasks: set[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
