"""A server whose answers have no end: JSON that goes on for as long as it is read."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from loopback import listening

from flowloom.auth.bounded import MAX_BYTES

Answer = tuple[str, str, bytes] | None
"""The media type of an answer, how it begins, and what is repeated after that; None for an endless one of JSON."""
ENOUGH = 16 * MAX_BYTES
"""After this many bytes the test has failed, and the answer ends."""


@dataclass
class Endless:
    """Where the server is, and how much of its answers was taken."""

    url: str
    sent: int = 0
    gone: bool = False
    """Whether the client has left before the end."""


@asynccontextmanager
async def endless_server(
    of: Callable[[str], bytes | None] = lambda path: None,
    *,
    media: str = "application/json",
    piece: bytes = b" " * 65536,
    packed: bool = False,
) -> AsyncIterator[Endless]:
    """A server that answers with the JSON that `of` gives for a path, or endlessly where it gives None.

    The endless answers are of the type `media`, and repeat `piece`; `packed`, they are deflated.
    """

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(length[0].partition(b":")[2]) if length else 0)
            known = of(head.split()[1].decode())
            if known is not None:
                writer.write(
                    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n"
                    b"content-length: %d\r\n\r\n%s" % (len(known), known)
                )
                await writer.drain()
            else:
                coded = b"content-encoding: deflate\r\n" if packed else b""
                writer.write(
                    b"HTTP/1.1 200 OK\r\n%scontent-type: %s\r\nconnection: close\r\n\r\n" % (coded, media.encode())
                )
                await _go_on(writer)

    async def _go_on(writer: asyncio.StreamWriter) -> None:
        pack = zlib.compressobj()
        written = 0
        try:
            while written < ENOUGH:
                data = pack.compress(piece) + pack.flush(zlib.Z_SYNC_FLUSH) if packed else piece
                writer.write(data)
                await writer.drain()
                written += len(piece)
                told.sent = max(told.sent, written)
        except ConnectionError:
            told.gone = True
            raise

    async with listening(converse) as port:
        told = Endless(f"http://127.0.0.1:{port}")
        yield told
