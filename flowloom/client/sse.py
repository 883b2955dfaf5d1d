"""`EventStreamReader`: the events of a server's answer, from whatever gives its bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from flowloom.client.handlers import EventHandler, EventMode, create_event_handler
from flowloom.errors import ConfigurationError, InputValidationError
from flowloom.interop.parsed import ParsedEvent
from flowloom.models.sse_decoder import RawFrame, SseDecoder, bytes_given

Chunk = bytes | str
_END: Any = object()
"""Comes after the last chunk."""


class SseFrame(NamedTuple):
    """One server-sent event."""

    event: str
    """Its name; `message` if it has none."""
    data: str
    """Its `data` lines, joined by newlines."""
    id: str
    """The last id that the server gave, with this event or before; empty if it gave none."""
    retry: int | None
    """Milliseconds to wait before connecting again, if this event says so."""


class EventStreamReader:
    """Reads a stream of server-sent events, wherever it was cut into chunks.

    `chunks` gives the bytes (or text) of the stream: any iterable, or async iterable, such as the body of an answer
    of an HTTP library. Iterate over the reader, with `for` or `async for` as `chunks` demands, for the frames of the
    stream; over `events()` for what the frames say. Both go on where the other stopped. `mode`, `validate` and
    `strict` are those of `create_event_handler`; or give a `handler` of your own.

    What `chunks` raises is raised, after the events that were complete before it. A stream that ends inside of an
    event gives that event, as far as it came, and `cut_off` is true from then on. Raises `InputValidationError` for
    what can not be iterated over, and `EventParseError` for a chunk that is neither bytes nor text.
    """

    def __init__(
        self,
        chunks: Iterable[Chunk] | AsyncIterable[Chunk],
        *,
        mode: EventMode = "auto",
        validate: bool = False,
        strict: bool = False,
        handler: EventHandler | None = None,
    ) -> None:
        if isinstance(chunks, bytes | str):
            chunks = [chunks]
        given = cast(object, chunks)
        if isinstance(given, Mapping) or not isinstance(given, Iterable | AsyncIterable):
            raise InputValidationError(
                f"An `EventStreamReader` reads an iterable of bytes or texts, or an asynchronous one, such as the body "
                f"of an answer. It was given a {type(cast(object, given)).__name__}."
            )
        self._chunks = chunks
        self._sync: Iterator[Chunk] | None = None
        self._async: AsyncIterator[Chunk] | None = None
        self._decoder = SseDecoder()
        self._ready: deque[RawFrame] = deque()
        self._any = False
        self._ended = False
        self.handler = handler or create_event_handler(mode, validate=validate, strict=strict)
        """Reads the data of the frames."""
        self.last_event_id = ""
        """What to send as `Last-Event-ID` when connecting again, to go on after the frames that were given."""
        self.retry: int | None = None
        """Milliseconds to wait before connecting again, if the server said so."""

    @property
    def cut_off(self) -> bool:
        """Whether the stream ended inside of an event. That event does not count for `last_event_id`."""
        return self._decoder.cut_off

    def __iter__(self) -> Iterator[SseFrame]:
        return self

    def __aiter__(self) -> AsyncIterator[SseFrame]:
        return self

    def __next__(self) -> SseFrame:
        while not self._ready:
            if self._ended:
                raise StopIteration
            if self._sync is None:
                self._sync = self._sync_source()
            self._take(next(self._sync, _END))
        return self._give()

    async def __anext__(self) -> SseFrame:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            if self._async is None:
                self._async = self._async_source()
            self._take(await anext(self._async, _END))
        return self._give()

    def events(self) -> ParsedEvents:
        """What the frames say: an iterable and async iterable of `ParsedEvent`s."""
        return ParsedEvents(self)

    def _sync_source(self) -> Iterator[Chunk]:
        if not isinstance(self._chunks, Iterable):
            raise ConfigurationError("The chunks of this reader come asynchronously: use `async for`.")
        return iter(self._chunks)

    def _async_source(self) -> AsyncIterator[Chunk]:
        if isinstance(self._chunks, AsyncIterable):
            return aiter(self._chunks)
        return _asynchronous(self._chunks)

    def _take(self, chunk: Chunk) -> None:
        if chunk is _END:
            self._ended = True
            self._ready.extend(self._decoder.last_frames())
            if not self._any and not self._ready and self._decoder.stray:
                # no stream at all, but an error's plain text
                self._ready.append(RawFrame(b"error", self._decoder.stray, b"", None))
        else:
            self._ready.extend(self._decoder.frames(bytes_given(chunk)))
        self._any = self._any or bool(self._ready)
        if not self._ready:
            self._note_place()

    def _give(self) -> SseFrame:
        raw = self._ready.popleft()
        if self._ready:
            self.last_event_id = _text(raw.id)
            self.retry = self.retry if raw.retry is None else raw.retry
        else:
            self._note_place()
        return SseFrame(_text(raw.event) or "message", _text(raw.data), _text(raw.id), raw.retry)

    def _note_place(self) -> None:
        """All that was decoded is given: fields without an event count as well."""
        self.last_event_id = _text(self._decoder.last_id)
        self.retry = self._decoder.retry


class ParsedEvents:
    """The events of a reader, for `for` and `async for`."""

    def __init__(self, reader: EventStreamReader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[ParsedEvent]:
        handler = self._reader.handler
        for frame in self._reader:
            yield from handler.read(frame.data, frame.event)
        yield from handler.close()

    async def __aiter__(self) -> AsyncIterator[ParsedEvent]:
        handler = self._reader.handler
        async for frame in self._reader:
            for event in handler.read(frame.data, frame.event):
                yield event
        for event in handler.close():
            yield event


async def _asynchronous(chunks: Iterable[Chunk]) -> AsyncIterator[Chunk]:
    for chunk in chunks:
        yield chunk


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
