"""`EventStreamReader`: frames from bytes, however they come."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.wire_server import WireServer, raw_stream
from stream_kit import frame, wire

from flowloom import ConfigurationError, InputValidationError
from flowloom.client import EventStreamReader, create_event_handler
from flowloom.client.sse import SseFrame
from flowloom.errors import EventParseError
from flowloom.models.http import httpx
from flowloom.models.sse_decoder import SseDecoder


def frames(*chunks: bytes | str) -> list[SseFrame]:
    return list(EventStreamReader(chunks))


def datas(*chunks: bytes | str) -> list[str]:
    return [each.data for each in frames(*chunks)]


STREAMS: list[tuple[str, bytes, list[tuple[str, str, str, int | None]]]] = [
    ("one event", b"data: a\n\n", [("message", "a", "", None)]),
    ("two events", b"data: a\n\ndata: b\n\n", [("message", "a", "", None), ("message", "b", "", None)]),
    ("no space after the colon", b"data:a\n\n", [("message", "a", "", None)]),
    ("two spaces: one is the value's", b"data:  a\n\n", [("message", " a", "", None)]),
    ("several data lines", b"data: a\ndata: b\ndata:\ndata: c\n\n", [("message", "a\nb\n\nc", "", None)]),
    ("data without a colon", b"data\n\n", [("message", "", "", None)]),
    ("empty data", b"data:\n\n", [("message", "", "", None)]),
    ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", [("message", "a", "", None), ("message", "b", "", None)]),
    ("CR alone", b"data: a\r\rdata: b\r\r", [("message", "a", "", None), ("message", "b", "", None)]),
    ("line ends mixed", b"data: a\r\n\ndata: b\r\r\ndata: c\n\r", [("message", x, "", None) for x in "abc"]),
    ("a byte order mark", b"\xef\xbb\xbfdata: a\n\n", [("message", "a", "", None)]),
    ("a second byte order mark is data's", b"data: \xef\xbb\xbfa\n\n", [("message", "\ufeffa", "", None)]),
    ("comments", b": ping\n\n:\n\ndata: a\n: x\n\n", [("message", "a", "", None)]),
    ("a name", b"event: error\ndata: a\n\ndata: b\n\n", [("error", "a", "", None), ("message", "b", "", None)]),
    ("the last of two names", b"event: x\nevent: y\ndata: a\n\n", [("y", "a", "", None)]),
    ("a name without data is dropped", b"event: x\n\ndata: a\n\n", [("message", "a", "", None)]),
    ("an id stays", b"id: 1\ndata: a\n\ndata: b\n\n", [("message", "a", "1", None), ("message", "b", "1", None)]),
    ("an id is reset", b"id: 1\ndata: a\n\nid\ndata: b\n\n", [("message", "a", "1", None), ("message", "b", "", None)]),
    ("an id with NUL is ignored", b"id: 1\0\ndata: a\n\n", [("message", "a", "", None)]),
    ("an id without data", b"id: 7\n\ndata: a\n\n", [("message", "a", "7", None)]),
    ("retry", b"retry: 250\ndata: a\n\ndata: b\n\n", [("message", "a", "", 250), ("message", "b", "", None)]),
    ("retry that is no number", b"retry: soon\ndata: a\n\n", [("message", "a", "", None)]),
    ("retry that is too large", b"retry: " + b"9" * 9999 + b"\ndata: a\n\n", [("message", "a", "", None)]),
    ("unknown fields", b"foo: x\nbar\ndata: a\n\n", [("message", "a", "", None)]),
    ("bytes that are not UTF-8", b"data: a\xff\n\n", [("message", "a\ufffd", "", None)]),
    ("blank lines", b"\n\n\r\n\n", []),
    ("nothing", b"", []),
    ("no final blank line", b"data: a\n", [("message", "a", "", None)]),
    ("no final newline", b"data: a\n\ndata: b", [("message", "a", "", None), ("message", "b", "", None)]),
    ("UTF-8", "data: größe 🙂\n\n".encode(), [("message", "größe 🙂", "", None)]),
    (
        "other separators are data's",
        "data: a\u2028b\x0bc\x85d\n\n".encode(),
        [("message", "a\u2028b\x0bc\x85d", "", None)],
    ),
]


@pytest.mark.parametrize(("stream", "expected"), [s[1:] for s in STREAMS], ids=[s[0] for s in STREAMS])
class TestStreams:
    def test_in_one_chunk(self, stream: bytes, expected: list[Any]) -> None:
        assert frames(stream) == expected

    def test_byte_by_byte(self, stream: bytes, expected: list[Any]) -> None:
        assert frames(*(stream[i : i + 1] for i in range(len(stream)))) == expected

    def test_cut_in_two_anywhere(self, stream: bytes, expected: list[Any]) -> None:
        for at in range(min(len(stream), 200)):
            assert frames(stream[:at], b"", stream[at:]) == expected


lines = st.sampled_from(
    [b"data: a", b"data:", b"event: e", b"id: 1", b"retry: 5", b": c", b"", b"x", b"\xf0\x9f\x99\x82"]
)
streams = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=12).map(
    lambda pairs: b"".join(line + end for line, end in pairs)
)


@given(stream=streams | st.binary(max_size=40), cuts=st.lists(st.integers(0, 60), max_size=8))
def test_cuts_make_no_difference(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    cut, whole = EventStreamReader(pieces), EventStreamReader([stream])
    assert list(cut) == list(whole)
    assert (cut.last_event_id, cut.retry, cut.cut_off) == (whole.last_event_id, whole.retry, whole.cut_off)


def test_text_chunks_are_taken_too() -> None:
    assert datas("da", "ta: größe 🙂\n", "\n") == ["größe 🙂"]
    assert datas("data: \ud83d\n\n") == ["\ufffd\ufffd\ufffd"]
    assert [each.data for each in EventStreamReader("data: a\n\n")] == ["a"]


async def test_an_async_source() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"data: a\n"
        yield b"\ndata: b\n\n"

    assert [each.data async for each in EventStreamReader(chunks())] == ["a", "b"]


async def test_a_sync_source_may_be_read_asynchronously() -> None:
    assert [each.data async for each in EventStreamReader([b"data: a\n\n"])] == ["a"]


def test_an_async_source_cannot_be_read_synchronously() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b""

    with pytest.raises(ConfigurationError, match="async for"):
        next(EventStreamReader(chunks()))


def test_the_place_in_the_stream_is_that_of_the_frames_given_so_far() -> None:
    """Several events in one chunk: who stops after the first has to get the second again."""
    reader = EventStreamReader([b"id: 1\nretry: 9\ndata: a\n\nid: 2\ndata: b\n\nid: 3\n\n"])
    next(reader)
    assert (reader.last_event_id, reader.retry) == ("1", 9)
    next(reader)
    assert (reader.last_event_id, reader.retry) == ("3", 9)


def test_an_event_that_was_cut_off_is_given_and_does_not_count_as_received() -> None:
    reader = EventStreamReader([b"id: 1\ndata: a\n\nid: 2\ndata: b"])
    assert [each.data for each in reader] == ["a", "b"]
    assert reader.cut_off
    assert reader.last_event_id == "1"


@pytest.mark.parametrize(
    "rest", [b"id: 2\n", b"id: 2\r\n", b"event: error\nid: 2\n", b"id: 2\n: ping\n", b"event: error\n"]
)
def test_an_event_that_was_cut_off_before_its_data_does_not_count_as_received(rest: bytes) -> None:
    """Only the blank line behind an event says that it is whole: a server that is asked again has to give it."""
    reader = EventStreamReader([b"id: 1\ndata: a\n\n", rest])
    assert [each.data for each in reader] == ["a"]
    assert (reader.cut_off, reader.last_event_id) == (True, "1")


@pytest.mark.parametrize("no_stream", [None, 5, {"data": "a"}, object()], ids=lambda given: type(given).__name__)
def test_what_cannot_be_read_as_a_stream_is_refused_when_it_is_given(no_stream: Any) -> None:
    with pytest.raises(InputValidationError, match=f"body of an answer. It was given a {type(no_stream).__name__}"):
        EventStreamReader(no_stream)


@pytest.mark.parametrize("chunk", [None, 5, ["data: a"]])
async def test_a_chunk_that_is_neither_bytes_nor_text_is_named(chunk: Any) -> None:
    """It is neither the end of the stream nor so many bytes of nothing."""
    with pytest.raises(EventParseError, match=f"bytes or text. It was given a {type(chunk).__name__}"):
        list(EventStreamReader([b"data: a\n", chunk]))
    with pytest.raises(EventParseError, match="bytes or text"):
        _ = [each async for each in EventStreamReader([b"data: a\n", chunk])]


def test_a_stream_that_ends_between_events_is_not_cut_off() -> None:
    reader = EventStreamReader([b"data: a\n\n"])
    list(reader)
    assert not reader.cut_off


def test_reading_goes_on_where_it_stopped() -> None:
    reader = EventStreamReader([b"data: a\n\ndata: b\n\n", b"data: c\n\n"])
    for each in reader:
        assert each.data == "a"
        break
    assert [each.data for each in reader] == ["b", "c"]


def test_an_error_of_the_source_comes_after_what_was_complete() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: a\n\ndata: b"
        raise ConnectionResetError

    reader = EventStreamReader(chunks())
    assert next(reader).data == "a"
    with pytest.raises(ConnectionResetError):
        next(reader)
    assert [each.data for each in reader] == ["b"]
    assert reader.cut_off


def test_what_is_no_stream_but_an_errors_text_is_an_error() -> None:
    """A server that refuses writes plain JSON."""
    (event,) = EventStreamReader([b'{"detail":\n "Session not found"}']).events()
    assert event.kind == "error"
    assert str(event.error) == "Session not found"


def test_events_are_parsed() -> None:
    stream = [frame(wire("hel", partial=True)), b": ping\n\n", frame(wire("hello")), frame("[DONE]")]
    parsed = list(EventStreamReader(stream).events())
    assert [each.text_content for each in parsed] == ["hel", "hello", ""]
    assert [each.kind for each in parsed] == ["event", "event", "done"]


def test_error_frames_become_typed_and_the_stream_goes_on() -> None:
    stream = [frame({"error": "model is down"}, event="error"), frame(wire("hello"))]
    failed, said = EventStreamReader(stream).events()
    assert failed.kind == "error"
    assert str(failed.error) == "model is down"
    assert said.text_content == "hello"


def test_a_reader_takes_a_handler_of_its_users() -> None:
    handler = create_event_handler("legacy")
    reader = EventStreamReader([frame({"type": "delta", "data": {"text": "hi"}})], handler=handler)
    assert [each.text_content for each in reader.events()] == ["hi"]


async def test_a_stream_over_a_real_connection() -> None:
    """Cut into single bytes, and dropped by the server in the middle of an event."""
    stream = frame(wire("größe 🙂", id="e1"), id="1") + frame(wire("x", id="e2"), id="2")[:-6]
    with WireServer(raw_stream([stream[i : i + 1] for i in range(len(stream))])) as server:
        async with httpx.AsyncClient() as client, client.stream("GET", f"{server.url}/run_sse") as response:
            reader = EventStreamReader(response.aiter_bytes())
            texts = [event.text_content async for event in reader.events()]
    assert texts == ["größe 🙂"]
    assert (reader.cut_off, reader.last_event_id) == (True, "1")


def test_stray_lines_are_kept_for_who_wants_them() -> None:
    """Google writes errors into a stream as plain JSON."""
    decoder = SseDecoder()
    assert decoder.feed(b'data: a\n\n{"error": {\n"code": 500}}\n') == [b"a"]
    assert decoder.close() == [b'{"error": {\n"code": 500}}']


def test_stray_lines_are_bounded() -> None:
    decoder = SseDecoder()
    for _ in range(40):
        decoder.feed(b"x" * 100_000 + b"\n")
    assert len(decoder.stray) < 1_500_000


@pytest.mark.parametrize("chunk", [1, 7, 60])
@pytest.mark.parametrize("line", [1 << 30, 100], ids=["one line", "many lines"])
def test_the_cost_grows_with_the_size_alone(chunk: int, line: int) -> None:
    """Four times the event takes about four times as long, not sixteen."""

    def seconds(size: int) -> float:
        text = b"x" * size
        rows = [text[i : i + line] for i in range(0, size, line)]
        stream = b"".join(b"data: " + row + b"\n" for row in rows) + b"\n"
        pieces = [stream[i : i + chunk] for i in range(0, len(stream), chunk)]
        best = float("inf")
        for _ in range(3):
            decoder = SseDecoder()
            start = time.thread_time()
            for piece in pieces:
                decoder.frames(piece)
            best = min(best, time.thread_time() - start)
        return best

    size = 30_000 * min(chunk, 20)
    assert seconds(4 * size) < 9 * seconds(size)
