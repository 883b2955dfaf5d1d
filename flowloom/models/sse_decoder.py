"""`SseDecoder`: server-sent events from a stream of bytes, wherever the network cut it."""

from __future__ import annotations

from typing import NamedTuple

from flowloom.errors import EventParseError

_BOM = b"\xef\xbb\xbf"
_STRAY_LIMIT = 1 << 20
MAX_LINE_BYTES = 16 << 20
"""The longest line of a stream."""
MAX_EVENT_BYTES = 64 << 20
"""The most data that the lines of one event may have together."""
_LINE_ENDS = (b"\n", b"\r")


def bytes_given(given: bytes | str) -> bytes:
    """What is given of a stream, as bytes. Raises `EventParseError` for what is neither bytes nor text."""
    if isinstance(given, str):
        return given.encode("utf-8", "surrogatepass")
    if not isinstance(given, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EventParseError(f"A stream of events is bytes or text. It was given a {type(given).__name__}.")
    return bytes(given)


class RawFrame(NamedTuple):
    """One server-sent event as bytes. `id` is the last one that was given, in this event or before."""

    event: bytes
    data: bytes
    id: bytes
    retry: int | None


class SseDecoder:
    """Cuts a stream of bytes into server-sent events, as the HTML standard has it.

    Lines end at LF, CR or CRLF; a byte order mark at the start and comments are skipped. An event without its final
    blank line, which the standard drops, is given by `close`: servers cut off. Lines with a field name that the
    standard does not know (an error that was written as plain JSON) are collected in `stray`, up to a megabyte.

    Every byte is looked at a fixed number of times, in whatever pieces they come. Raises `EventParseError` for a line
    or an event that is too large.
    """

    __slots__ = (
        "_data",
        "_event",
        "_frame_retry",
        "_id",
        "_size",
        "_skip_newline",
        "_started",
        "_stray",
        "_stray_size",
        "_tail",
        "cut_off",
        "last_id",
        "retry",
    )

    def __init__(self) -> None:
        self._tail = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = b""
        self._id = b""
        self._frame_retry: int | None = None
        self._stray: list[bytes] = []
        self._stray_size = 0
        self._started = False
        self._skip_newline = False
        self.last_id = b""
        """Of the last event that is complete."""
        self.retry: int | None = None
        """Milliseconds to wait before connecting again, if the server said so."""
        self.cut_off = False
        """Whether the stream ended inside of an event. Known once the decoder was closed."""

    @property
    def stray(self) -> bytes:
        """The lines without a known field name."""
        return b"\n".join(self._stray)

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that `received` completes."""
        return [frame.data for frame in self.frames(received)]

    def close(self) -> list[bytes]:
        """What is left at the end: the data of an event without its final blank line, then the stray lines."""
        left = [frame.data for frame in self.last_frames()]
        if self._stray:
            left.append(self.stray)
        return left

    def frames(self, received: bytes) -> list[RawFrame]:
        """The events that `received` completes."""
        if self._skip_newline and received:
            received = received.removeprefix(b"\n")
            self._skip_newline = False
        if b"\n" not in received and b"\r" not in received:
            self._tail += received
            if len(self._tail) > MAX_LINE_BYTES:
                raise self._too_large("line", MAX_LINE_BYTES)
            return []
        lines = received.splitlines()
        rest = b"" if received.endswith(_LINE_ENDS) else lines.pop()
        if self._tail:
            self._tail += lines[0]
            lines[0] = bytes(self._tail)
            self._tail.clear()
        if len(lines[0]) + len(received) > MAX_LINE_BYTES and max(map(len, [*lines, rest])) > MAX_LINE_BYTES:
            raise self._too_large("line", MAX_LINE_BYTES)
        self._tail += rest
        self._skip_newline = received.endswith(b"\r")
        complete: list[RawFrame] = []
        if not self._started:
            self._started = True
            lines[0] = lines[0].removeprefix(_BOM)
        for line in lines:
            if line.startswith(b"data:"):
                self._add(line[6:] if line.startswith(b" ", 5) else line[5:])
            elif line:
                self._take_field(line)
            else:
                self._complete(complete)
        return complete

    def last_frames(self) -> list[RawFrame]:
        """The event that the end of the stream left without its final blank line."""
        before = self.last_id
        partial = bool(self._tail)
        complete = self.frames(b"\n") if partial else []
        self.cut_off = partial or bool(self._data or self._event) or self._id != before
        self._complete(complete)
        self.last_id = before  # so that a server that is asked again gives it again, whole
        return complete

    def _complete(self, complete: list[RawFrame]) -> None:
        self.last_id = self._id
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            complete.append(RawFrame(self._event, data, self._id, self._frame_retry))
            self._data = []
            self._size = 0
        self._event = b""
        self._frame_retry = None

    def _add(self, data: bytes) -> None:
        self._data.append(data)
        self._size += len(data) + 1
        if self._size > MAX_EVENT_BYTES:
            raise self._too_large("event", MAX_EVENT_BYTES)

    def _too_large(self, what: str, most: int) -> EventParseError:
        self._tail.clear()
        self._data, self._size = [], 0
        return EventParseError(f"A stream has a {what} of more than {most >> 20} MiB.")

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if not name:
            return  # a comment
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value
        elif name == b"retry":
            if value.isdigit() and len(value) < 16:
                self.retry = self._frame_retry = int(value)
        elif name == b"data":
            self._add(value)
        elif self._stray_size < _STRAY_LIMIT:
            self._stray.append(line)
            self._stray_size += len(line) + 1
