"""A way to a PostgreSQL server on which answers get lost: a proxy that swallows the reply to a commit, and hangs up."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")

COMMIT = b"COMMIT\x00"


class LossyWay:
    """Passes everything on. While `armed`, the server's answer to every other commit is lost, with its connection."""

    def __init__(self, port: int) -> None:
        self.armed = False
        self.lost = 0
        """How many answers were lost."""
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """What happens once between a commit and the client's hearing that its connection is gone."""
        self._commits = 0
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection("127.0.0.1", self._port)
        mute = asyncio.Event()
        self._open |= {writer, server}
        await asyncio.gather(self._pass_on(reader, server, mute), self._pass_back(answers, writer, mute))
        self._open -= {writer, server}

    async def _pass_on(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, mute: asyncio.Event) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if self.armed and COMMIT in data:
                    self._commits += 1
                    if self._commits % 2:
                        mute.set()
                server.write(data)
        server.close()

    async def _pass_back(
        self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, mute: asyncio.Event
    ) -> None:
        with suppress(ConnectionError):
            while (data := await answers.read(1 << 16)) and not mute.is_set():
                writer.write(data)
        if mute.is_set():
            self.lost += 1
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                await meanwhile()
        writer.close()

    async def end(self, server: asyncio.Server) -> None:
        """Hang up on everyone."""
        server.close()
        while self._open:
            for writer in self._open:
                writer.close()
            await asyncio.sleep(0.001)


@asynccontextmanager
async def lossy_way(dsn: str) -> AsyncGenerator[tuple[str, LossyWay]]:
    """The DSN of the same database through a `LossyWay`, which has a loop and a thread of its own."""
    found = re.search(r":(\d+)/", dsn)
    assert found is not None
    way = LossyWay(int(found[1]))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        server = await _there(loop, asyncio.start_server(way.serve, "127.0.0.1", 0))
        yield dsn.replace(f":{found[1]}/", f":{server.sockets[0].getsockname()[1]}/"), way
        await _there(loop, way.end(server))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _there(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
