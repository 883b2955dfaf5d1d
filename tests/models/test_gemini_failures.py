"""The Gemini adapter when things go wrong: typed errors with the provider's status, retries, nothing bare."""

from __future__ import annotations

import socket

import pytest
from gemini_kit import Pauses, adapter, answers, ask, said
from google.genai import types
from models.gemini_wire import answer, error, frame, refusal, streamed, text, whole
from models.wire_server import Reply, WireServer, raw_stream

from flowloom import Gemini, LlmRequest, ModelError, RetryOptions
from flowloom.errors import (
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelStreamError,
    ModelUnavailableError,
)

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
ONCE = RetryOptions(attempts=1)


@BOTH
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "INVALID_ARGUMENT", ModelRequestError),
        (401, "UNAUTHENTICATED", ModelRequestError),
        (403, "PERMISSION_DENIED", ModelRequestError),
        (404, "NOT_FOUND", ModelRequestError),
        (429, "RESOURCE_EXHAUSTED", ModelRateLimitError),
        (500, "INTERNAL", ModelUnavailableError),
        (503, "UNAVAILABLE", ModelUnavailableError),
    ],
)
async def test_a_refusal_is_an_error_with_status_and_code(
    status: int, code: str, kind: type[ModelError], stream: bool
) -> None:
    with WireServer(refusal(status, code, "because")) as server, pytest.raises(kind, match="because") as raised:
        await answers(adapter(server, retry_options=ONCE), stream=stream)
    assert (raised.value.status, raised.value.code) == (status, code)
    assert raised.value.model == "gemini-2.5-flash"


@BOTH
async def test_after_a_429_the_call_is_made_again(stream: bool) -> None:
    good = streamed(answer(text("ok"), finish="STOP")) if stream else whole(text("ok"))
    pauses = Pauses()
    with WireServer(refusal(429, "RESOURCE_EXHAUSTED"), refusal(503, "UNAVAILABLE"), good) as server:
        assert said((await answers(adapter(server, pauses), stream=stream))[-1]) == "ok"
        assert len(server.requests) == 3
    assert pauses.seconds == [1, 2]


async def test_when_the_attempts_are_used_up_the_last_error_is_raised() -> None:
    with WireServer(*(refusal(500, "INTERNAL", f"no {n}") for n in range(5))) as server:
        with pytest.raises(ModelUnavailableError, match="no 2"):
            await answers(adapter(server))
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "pause"),
    [
        (refusal(429, "RESOURCE_EXHAUSTED", headers={"retry-after": "7"}), 7),
        (
            refusal(
                429,
                "RESOURCE_EXHAUSTED",
                "slow",
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"},
            ),
            17,
        ),
    ],
    ids=["header", "body"],
)
async def test_the_pause_that_a_provider_asks_for_is_kept(reply: Reply, pause: float) -> None:
    pauses = Pauses()
    with WireServer(reply, whole(text("ok"))) as server:
        await answers(adapter(server, pauses))
    assert pauses.seconds == [pause]


async def test_a_longer_pause_than_allowed_is_not_waited_for() -> None:
    with WireServer(refusal(429, "RESOURCE_EXHAUSTED", headers={"retry-after": "900"})) as server:
        with pytest.raises(ModelRateLimitError):
            await answers(adapter(server))
        assert len(server.requests) == 1


async def test_a_request_that_is_wrong_is_not_sent_again() -> None:
    with WireServer(refusal(400, "INVALID_ARGUMENT")) as server:
        with pytest.raises(ModelRequestError):
            await answers(adapter(server))
        assert len(server.requests) == 1


@pytest.mark.parametrize("again", [whole(text("ok"))])
async def test_a_connection_that_is_refused_or_reset(again: Reply) -> None:
    """Nobody listens: unavailable. The connection breaks before an answer: the call is made again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ModelUnavailableError) as raised:
        await answers(Gemini(base_url=url, api_key="k", retry_options=ONCE))
    assert raised.value.retryable
    with WireServer(Reply([b'{"cand'], ending="cut"), again) as server:
        assert said((await answers(adapter(server)))[-1]) == "ok"


async def listen(model: Gemini, texts: list[str]) -> None:
    """Stream an answer; what was heard stays in `texts`."""
    async for response in model.generate_content_async(ask(), stream=True):
        texts.append(said(response))  # noqa: PERF401 - kept when the stream fails


TRUNCATED = {
    "between chunks": [frame(answer(text("half ")))],
    "inside a chunk": [frame(answer(text("half "))), b'data: {"candidates": [{"con'],
}


@pytest.mark.parametrize("where", TRUNCATED)
async def test_a_stream_that_breaks_off_is_an_error_and_not_begun_again(where: str) -> None:
    """What was given out is not repeated."""
    with WireServer(raw_stream(TRUNCATED[where], "cut"), whole(text("again"))) as server:
        model, partials = adapter(server), list[str]()
        with pytest.raises(ModelStreamError) as raised:
            await listen(model, partials)
        assert partials == ["half "]
        assert raised.value.retryable
        assert len(server.requests) == 1
        await model.aclose()


async def test_an_empty_stream_is_an_error_that_is_retried() -> None:
    with WireServer(raw_stream([]), streamed(answer(text("ok"), finish="STOP"))) as server:
        assert said((await answers(adapter(server), stream=True))[-1]) == "ok"
    with WireServer(raw_stream([])) as server, pytest.raises(ModelStreamError, match="before anything"):
        await answers(adapter(server, retry_options=ONCE), stream=True)


@pytest.mark.parametrize("as_event", [True, False], ids=["as an event", "as plain JSON"])
async def test_an_error_object_inside_a_stream_is_raised(as_event: bool) -> None:
    body = error(503, "UNAVAILABLE", "overloaded")
    last = frame(body) if as_event else frame(body)[6:]
    with WireServer(raw_stream([frame(answer(text("half "))), last])) as server:
        model, partials = adapter(server), list[str]()
        with pytest.raises(ModelStreamError, match="overloaded") as raised:
            await listen(model, partials)
        await model.aclose()
    assert partials == ["half "]
    assert (raised.value.status, raised.value.code) == (503, "UNAVAILABLE")


async def test_the_status_of_an_error_inside_a_stream_may_be_written_as_text() -> None:
    """As gateways do."""
    body = error(503, "UNAVAILABLE")
    body["error"]["code"] = "503"
    with WireServer(streamed(answer(text("half ")), body)) as server, pytest.raises(ModelStreamError) as raised:
        await answers(adapter(server), stream=True)
    assert (raised.value.status, raised.value.retryable) == (503, True)


async def test_an_error_object_with_status_200_is_raised() -> None:
    with (
        WireServer(raw_stream([frame(error(429, "RESOURCE_EXHAUSTED"))[6:]])) as server,
        pytest.raises(ModelRateLimitError),
    ):
        await answers(adapter(server, retry_options=ONCE))


@BOTH
@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"[1, 2]", b'{"candidates": 7}', b"\xff\xfe"])
async def test_an_answer_that_is_none_is_a_typed_error(body: bytes, stream: bool) -> None:
    pieces = [b"data: " + body + b"\n\n"] if stream else [body]
    reply = raw_stream(pieces) if stream else Reply(pieces)
    with WireServer(reply) as server, pytest.raises((ModelResponseError, ModelStreamError)):
        await answers(adapter(server, retry_options=ONCE), stream=stream)


async def test_a_silent_server_is_a_timeout() -> None:
    options = types.HttpOptions(timeout=100)
    with WireServer(Reply([], ending="hang")) as server, pytest.raises(ModelError) as raised:
        await answers(adapter(server, retry_options=ONCE, http_options=options))
    assert raised.value.code == "TIMEOUT"


async def test_a_request_without_contents_is_refused_here() -> None:
    with WireServer() as server, pytest.raises(ModelRequestError, match="no contents"):
        await answers(adapter(server), LlmRequest())


async def test_every_error_is_one_of_ours_with_its_cause() -> None:
    """No exception of the HTTP library escapes."""
    with WireServer(refusal(500, "INTERNAL")) as server, pytest.raises(ModelError) as raised:
        await answers(adapter(server, retry_options=ONCE))
    assert raised.value.__cause__ is not None
    assert type(raised.value).__module__.startswith("flowloom")
