"""The Anthropic adapter when things go wrong, and with which credentials it calls whom."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from loopback import listening
from models.gemini_kit import Pauses
from models.wire_server import Reply, WireServer, raw_stream
from providers.sdk_kit import answers, ask, frame, whole

from flowloom import AnthropicModel, ConfigurationError, LLMRegistry, LlmResponse, ModelError, RetryOptions
from flowloom.errors import (
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelStreamError,
    ModelUnavailableError,
)
from flowloom.models.signatures import ANTHROPIC, signed

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
ONCE = RetryOptions(attempts=1)
MESSAGE = {"type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
GOOD = whole({**MESSAGE, "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"})
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("API_KEY", "AUTH_TOKEN", "BASE_URL", "CUSTOM_HEADERS", "PROFILE", "CONFIG_DIR", "FEDERATION_RULE_ID")
    for name in names:
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


def frames(*events: dict[str, Any]) -> list[bytes]:
    return [frame(each, each["type"]) for each in events]


def refusal(status: int, kind: str, message: str = "because", **headers: str) -> Reply:
    """An error as Anthropic reports it."""
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return whole(error, status, **headers)


def adapter(url: str, pauses: Pauses | None = None, **fields: Any) -> AnthropicModel:
    retry = ONCE if pauses is None else RetryOptions(initial_delay=1, jitter=0, sleep=pauses)
    return AnthropicModel(**{"model": "m", "base_url": url, "api_key": "key", "retry_options": retry, **fields})


def said(response: LlmResponse) -> str:
    return "".join(part.text or "" for part in (response.content and response.content.parts) or ())


async def collected(responses: AsyncIterable[LlmResponse], into: list[str]) -> None:
    async for each in responses:
        into.append(said(each))  # noqa: PERF401  what came before an error counts


# -- errors ----------------------------------------------------------------------------------------

REFUSALS: list[tuple[int, str, type[ModelError], bool]] = [
    (400, "invalid_request_error", ModelRequestError, False),
    (401, "authentication_error", ModelRequestError, False),
    (402, "billing_error", ModelRequestError, False),
    (403, "permission_error", ModelRequestError, False),
    (404, "not_found_error", ModelRequestError, False),
    (413, "request_too_large", ModelRequestError, False),
    (429, "rate_limit_error", ModelRateLimitError, True),
    (500, "api_error", ModelUnavailableError, True),
    (504, "timeout_error", ModelUnavailableError, True),
]


@BOTH
@pytest.mark.parametrize(("status", "code", "kind", "retryable"), REFUSALS)
async def test_a_refusal_is_an_error_with_status_and_code(
    server: WireServer, status: int, code: str, kind: type[ModelError], retryable: bool, stream: bool
) -> None:
    server.replies.append(refusal(status, code))
    with pytest.raises(kind, match="because") as raised:
        await answers(adapter(server.url), stream=stream)
    assert type(raised.value) is kind
    assert (raised.value.status, raised.value.code, raised.value.model) == (status, code, "m")
    assert raised.value.retryable is retryable


@BOTH
async def test_a_pause_that_is_asked_for_is_kept(server: WireServer, stream: bool) -> None:
    server.replies += [
        refusal(429, "rate_limit_error", **{"retry-after": "7"}),
        refusal(500, "api_error"),
        raw_stream(frames(*EVENTS)) if stream else GOOD,
    ]
    pauses = Pauses()
    assert said((await answers(adapter(server.url, pauses), stream=stream))[-1]) == "ok"
    assert pauses.seconds == [7, 2]


@BOTH
async def test_an_overloaded_server_is_an_error(stream: bool) -> None:
    """Its status, 529, is none that HTTP knows."""
    body = json.dumps(OVERLOADED).encode()
    head = b"HTTP/1.1 529 Overloaded\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)

    async with listening(answer) as port:
        with pytest.raises(ModelUnavailableError, match="Overloaded") as raised:
            await answers(adapter(f"http://127.0.0.1:{port}"), stream=stream)
    assert (raised.value.status, raised.value.code, raised.value.retryable) == (529, "overloaded_error", True)


async def test_an_error_page_is_an_error_with_its_status(server: WireServer) -> None:
    server.replies.append(Reply([b"<html>bad gateway</html>"], status=502, content_type="text/html"))
    with pytest.raises(ModelUnavailableError, match="bad gateway") as raised:
        await answers(adapter(server.url))
    assert raised.value.status == 502


@BOTH
async def test_nobody_at_the_other_end_is_an_error(stream: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ModelUnavailableError, match="could not be reached") as raised:
            await answers(adapter(url), stream=stream)
    assert raised.value.code == "CONNECTION"


@BOTH
async def test_a_silent_server_is_an_error(server: WireServer, stream: bool) -> None:
    server.replies.append(Reply(ending="hang", content_type="text/event-stream"))
    with pytest.raises(ModelError) as raised:
        await answers(adapter(server.url, timeout=0.01), stream=stream)
    assert raised.value.code == "TIMEOUT"
    assert raised.value.retryable


BROKEN: dict[str, tuple[Reply, type[ModelError], str]] = {
    "empty": (raw_stream([]), ModelStreamError, "before anything came"),
    "cut in the middle": (raw_stream(frames(*EVENTS[:3]), "cut"), ModelStreamError, "broke off"),
    "ended in the middle": (raw_stream(frames(*EVENTS[:3])), ModelStreamError, "without a reason"),
    "ended before its end": (raw_stream(frames(*EVENTS[:5])), ModelStreamError, "without a reason"),
    "an error in the middle": (raw_stream(frames(*EVENTS[:3], OVERLOADED)), ModelStreamError, "Overloaded"),
    "no JSON": (raw_stream([*frames(*EVENTS[:3]), frame(b"{nonsense}")]), ModelResponseError, "could not be read"),
    "no object": (raw_stream([*frames(*EVENTS[:3]), frame(b"[1]")]), ModelResponseError, "could not be read"),
    "another form": (
        raw_stream([frame({"type": "content_block_delta", "index": 0})]),
        ModelResponseError,
        "could not be read",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_stream_is_an_error_behind_what_came(server: WireServer, name: str) -> None:
    reply, kind, text = BROKEN[name]
    server.replies.append(reply)
    came: list[str] = []
    with pytest.raises(kind, match=text):
        await collected(adapter(server.url).generate_content_async(ask(), True), came)
    assert came == (["ok"] if len(reply.pieces) > 1 else [])


async def test_an_error_in_a_stream_has_the_status_that_it_stands_for(server: WireServer) -> None:
    """It is worth another call only while nothing was given out."""
    server.replies += [raw_stream(frames(EVENTS[0], OVERLOADED)), raw_stream(frames(*EVENTS[:3], OVERLOADED))]
    pauses = Pauses()
    with pytest.raises(ModelStreamError) as raised:
        await answers(adapter(server.url, pauses), stream=True)
    assert (raised.value.status, raised.value.code) == (529, "overloaded_error")
    assert len(server.requests) == 2
    assert len(pauses.seconds) == 1


async def test_a_stream_that_had_ended_may_break(server: WireServer) -> None:
    server.replies.append(raw_stream(frames(*EVENTS), "cut"))
    assert said((await answers(adapter(server.url), stream=True))[-1]) == "ok"


@pytest.mark.parametrize("text", [b"", b"nonsense", b"[]", b'{"content": 7, "usage": {"input_tokens": "x"}}'])
async def test_an_answer_that_is_none_is_an_error(server: WireServer, text: bytes) -> None:
    server.replies.append(Reply([text]))
    with pytest.raises(ModelResponseError, match="could not be read"):
        await answers(adapter(server.url))


async def test_an_error_with_status_200_is_an_error(server: WireServer) -> None:
    server.replies.append(whole(OVERLOADED))
    with pytest.raises(ModelUnavailableError) as raised:
        await answers(adapter(server.url))
    assert raised.value.status == 529


async def test_giving_up_a_stream_closes_the_connection(server: WireServer) -> None:
    server.replies.append(raw_stream(frames(*EVENTS[:3]), "hang"))
    stream = adapter(server.url).generate_content_async(ask(), True)
    assert said(await anext(stream)) == "ok"
    await stream.aclose()
    assert await asyncio.to_thread(server.client_left.wait, 60)


# -- credentials -----------------------------------------------------------------------------------


def test_names_lead_to_models() -> None:
    made = LLMRegistry.new_llm("anthropic/claude-haiku-4-5")
    assert isinstance(made, AnthropicModel)
    assert (made.model, made.url, made.hosted) == ("claude-haiku-4-5", "https://api.anthropic.com", True)


async def test_without_credentials_the_call_says_what_to_set() -> None:
    llm = AnthropicModel()
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        await answers(llm)


@pytest.mark.parametrize(
    ("name", "fields"),
    [("ANTHROPIC_API_KEY", {}), ("ANTHROPIC_AUTH_TOKEN", {}), (None, {"api_key": "k"}), (None, {"auth_token": "k"})],
)
def test_a_key_or_a_token_is_enough(monkeypatch: pytest.MonkeyPatch, name: str | None, fields: dict[str, str]) -> None:
    if name:
        monkeypatch.setenv(name, "secret")
    assert AnthropicModel(**fields).missing_credentials is None


def test_a_key_and_a_token_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="not both"):
        AnthropicModel(api_key="a", auth_token="b")


async def test_the_environment_names_server_key_and_headers(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-team: a\nx-cost: b")
    server.replies.append(GOOD)
    llm = AnthropicModel(model="m", headers={"x-cost": "c"})
    assert not llm.hosted
    await answers(llm)
    seen = server.requests[0]
    assert (seen.header("x-team"), seen.header("x-cost")) == (["a"], ["c"])
    assert seen.header("authorization") == ["Bearer secret"] or seen.header("x-api-key") == ["secret"]
    assert seen.header("anthropic-version")


async def test_the_key_of_the_environment_does_not_leak_to_other_servers(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    server.replies.append(GOOD)
    await answers(AnthropicModel(model="m", base_url=server.url))
    assert "secret" not in str(server.requests[0].headers)


async def test_a_header_may_be_the_credentials(server: WireServer) -> None:
    server.replies.append(GOOD)
    assert AnthropicModel(headers={"x-api-key": "mine"}).missing_credentials is None
    await answers(AnthropicModel(model="m", base_url=server.url, headers={"X-Api-Key": "mine"}))
    assert server.requests[0].header("x-api-key") == ["mine"]
    assert server.requests[0].header("authorization") == []


async def test_a_profile_of_the_sdk_is_used(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It holds a token that is due for renewal only in a hundred years, and the address of a server."""
    for folder, data in (
        ("configs", {"base_url": server.url, "authentication": {"type": "user_oauth", "client_id": "c"}}),
        ("credentials", {"access_token": "from-profile", "refresh_token": "r", "expires_at": 4_900_000_000}),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "work.json").write_text(json.dumps(data))
        (tmp_path / folder / "work.json").chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "work")
    server.replies.append(GOOD)
    llm = AnthropicModel(model="m")
    assert (llm.missing_credentials, llm.url) == (None, server.url)
    await answers(llm)
    assert server.requests[0].header("authorization") == ["Bearer from-profile"]


async def test_a_broken_profile_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "nowhere")
    with pytest.raises(ConfigurationError, match="nowhere"):
        await answers(AnthropicModel(model="m"))


@pytest.mark.parametrize("betas", [None, "mine"])
async def test_thoughts_that_no_longer_fit_are_left_to_the_server(
    server: WireServer, betas: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless other betas are asked for: the setting is one."""
    monkeypatch.setattr(AnthropicModel, "_is_anthropic", property(lambda self: True))
    server.replies.append(GOOD)
    thought = types.Part(text="hm", thought=True, thought_signature=signed(ANTHROPIC, "s"))
    history = [types.Content(role="model", parts=[thought]), types.Content(role="user", parts=[types.Part(text="b")])]
    llm = adapter(server.url, model="claude-sonnet-5-5", headers={"anthropic-beta": betas} if betas else {})
    await answers(llm, ask(*history))
    [seen] = server.requests
    if betas:
        assert "thinking" not in seen.json
        assert seen.header("anthropic-beta") == ["mine"]
    else:
        assert seen.json["thinking"] == {
            "type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        }
        assert "thinking-binding" in seen.header("anthropic-beta")[0]
