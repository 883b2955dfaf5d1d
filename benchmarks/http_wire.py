"""HTTP/1.1 with as little of a client as can be: what it costs is not to be seen in what a server is measured by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any


class Connection:
    """One connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        """A connection to a port of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20))

    async def post(self, path: str, body: Any) -> bytes:
        """The whole answer. Raises `RuntimeError` for a status other than 200."""
        return b"".join([piece async for piece in self.stream(path, body)])

    async def stream(self, path: str, body: Any) -> AsyncIterator[bytes]:
        """The answer as it comes, chunk by chunk."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        )
        self._writer.write(head.encode() + b"\r\n\r\n" + data)
        head_lines = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = None
        if b"content-length:" in head_lines:
            length = int(head_lines.partition(b"content-length:")[2].split()[0])
        if b" 200 " not in head_lines[:20]:
            rest = await self._reader.read(1000)
            raise RuntimeError(f"{path} is answered by {head_lines[:20]!r} {rest!r}")
        if length is not None:
            yield await self._reader.readexactly(length)
            return
        while size := int(await self._reader.readline(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()

    def close(self) -> None:
        """Leave, in the middle of an answer or not."""
        self._writer.close()
