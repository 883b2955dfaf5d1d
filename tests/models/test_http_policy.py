"""One policy for all adapters: how long they wait, where they send, and how much they read."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from kit import user
from models.wire_server import Reply, WireServer, raw_stream

from flowloom import AnthropicModel, Gemini, LlmRequest, ModelError, OpenAIModel
from flowloom.client.sse import EventStreamReader
from flowloom.errors import EventParseError, ModelRequestError, ModelUnavailableError
from flowloom.models import BaseLlm
from flowloom.models.http import MAX_BODY_BYTES, LoopClient
from flowloom.models.sse_decoder import MAX_LINE_BYTES

ONCE = {"attempts": 1}
MAKERS: dict[str, Callable[[str], BaseLlm]] = {
    "gemini": lambda url: Gemini(base_url=url, api_key="secret", retry_options=ONCE),
    "chat": lambda url: OpenAIModel(model="m", base_url=url, api_key="secret", retry_options=ONCE),
    "responses": lambda url: OpenAIModel(
        model="m", api="responses", base_url=url, api_key="secret", retry_options=ONCE
    ),
    "anthropic": lambda url: AnthropicModel(base_url=url, api_key="secret", retry_options=ONCE),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[str], BaseLlm]:
    return MAKERS[request.param]


@pytest.fixture
def servers() -> Iterator[tuple[WireServer, WireServer]]:
    with ExitStack() as stack:
        yield stack.enter_context(WireServer()), stack.enter_context(WireServer())


async def ask(model: BaseLlm, *, stream: bool = False) -> ModelError:
    """The error that the model's answer is."""
    try:
        with pytest.raises(ModelError) as caught:
            async for _ in model.generate_content_async(LlmRequest(contents=[user("My name is Ada.")]), stream):
                pass
    finally:
        await model.aclose()  # type: ignore[attr-defined]
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_is_sent_on_to_another_server(
    make: Callable[[str], BaseLlm], stream: bool, servers: tuple[WireServer, WireServer]
) -> None:
    """A redirect to another host or port is an error that names both; neither key nor contents go there."""
    first, second = servers
    elsewhere = second.url.replace("127.0.0.1", "localhost")
    first.replies = [Reply(status=307, headers={"location": f"{elsewhere}/v1"})]
    error = await ask(make(first.url), stream=stream)
    assert isinstance(error, ModelRequestError)
    assert error.code == "REDIRECT"
    assert not error.retryable
    assert first.url in str(error)
    assert elsewhere in str(error)
    assert second.requests == []
    assert second.connections == 0


async def test_a_redirect_on_the_same_server_is_followed(
    make: Callable[[str], BaseLlm], servers: tuple[WireServer, WireServer]
) -> None:
    """As often as servers do that; going round for ever is an error."""
    first, _ = servers
    first.replies = [Reply(status=307, headers={"location": "/there"}), Reply([b"{}"], status=404)]
    assert (await ask(make(first.url))).status == 404
    assert [seen.path for seen in first.requests][-1] == "/there"
    assert first.requests[0].body == first.requests[1].body
    first.replies = [Reply(status=307, headers={"location": "/there"})] * 30
    assert isinstance(await ask(make(first.url)), ModelRequestError)


BOMB = gzip.compress(b" " * (MAX_BODY_BYTES + 1), 9)


@pytest.mark.parametrize("status", [200, 500])
async def test_a_body_that_is_too_large_is_not_read(
    make: Callable[[str], BaseLlm], status: int, servers: tuple[WireServer, WireServer]
) -> None:
    """It is measured unpacked, of answers and of refusals; the connection is closed."""
    first, _ = servers
    pieces = [BOMB[:1000], BOMB[1000:]]
    first.replies = [Reply(pieces, status=status, headers={"content-encoding": "gzip"}, ending="hang")]
    error = await ask(make(first.url))
    assert error.code == "TOO_LARGE"
    assert "64 MiB" in str(error)
    assert await asyncio.to_thread(first.client_left.wait, 60)


async def test_a_line_of_a_stream_that_is_too_long_ends_it(
    make: Callable[[str], BaseLlm], servers: tuple[WireServer, WireServer]
) -> None:
    """A stream without an end of line is given up at 16 MiB, and its connection closed."""
    first, _ = servers
    first.replies = [raw_stream([b"data: "] + [b"a" * (1 << 20)] * 17, "hang")]
    error = await ask(make(first.url), stream=True)
    assert error.code == "TOO_LARGE"
    assert "16 MiB" in str(error)
    assert await asyncio.to_thread(first.client_left.wait, 60)


async def test_a_stream_without_an_end_is_given_up(
    make: Callable[[str], BaseLlm], servers: tuple[WireServer, WireServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A streamed answer is no larger than one that comes at once, of whatever it is made."""
    monkeypatch.setattr("flowloom.models.answers.MAX_BODY_BYTES", 1 << 20)
    first, _ = servers
    first.replies = [raw_stream([b": still here\n\n" * 10_000] * 8, "hang")]
    error = await ask(make(first.url), stream=True)
    assert error.code == "TOO_LARGE"
    assert "1 MiB" in str(error)
    assert await asyncio.to_thread(first.client_left.wait, 60)


def test_a_reader_of_streams_has_the_same_bounds() -> None:
    """Lines in one piece or many, and events of many lines."""
    for chunks in ([b"data: " + b"a" * MAX_LINE_BYTES + b"\n\n"], [b"data:" + b"a" * (1 << 20)] * 17):
        with pytest.raises(EventParseError, match="16 MiB"):
            next(EventStreamReader(chunks))
    with pytest.raises(EventParseError, match="64 MiB"):
        next(EventStreamReader([b"data: " + b"a" * (1 << 20) + b"\n"] * 65))
    assert next(EventStreamReader([b"data: " + b"a" * (1 << 20) + b"\n\n"])).event == "message"


async def test_how_long_an_adapter_waits(
    make: Callable[[str], BaseLlm], monkeypatch: pytest.MonkeyPatch, servers: tuple[WireServer, WireServer]
) -> None:
    """10 seconds for a connection and 600 of silence, unless `timeout` says otherwise."""
    waits: list[dict[str, float | None]] = []
    limit = LoopClient._limit_waiting

    def watched(self: LoopClient, request: object) -> None:
        limit(self, request)  # type: ignore[arg-type]
        waits.append(request.extensions["timeout"])  # type: ignore[attr-defined]

    monkeypatch.setattr(LoopClient, "_limit_waiting", watched)
    first, _ = servers
    model = make(first.url)
    for seconds in (600.0, 5.0, None):
        model.timeout = seconds  # type: ignore[attr-defined]
        await ask(model)
    assert [each["read"] for each in waits] == [600, 5, None]
    assert {each["connect"] for each in waits} <= {10, 5}


async def test_a_server_that_says_nothing_is_given_up(
    make: Callable[[str], BaseLlm], servers: tuple[WireServer, WireServer]
) -> None:
    """The `timeout` of a model holds before the first byte."""
    first, _ = servers
    first.replies = [Reply(ending="silent")]
    model = make(first.url)
    model.timeout = 0.05  # type: ignore[attr-defined]
    error = await ask(model)
    assert isinstance(error, ModelUnavailableError)
    assert error.code == "TIMEOUT"
