"""The loopback servers speak the true formats: what the providers' own SDKs read is the answer that was given."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types
from models.answer_server import AnswerServer, cut
from models.gemini_wire import GeminiServer
from providers.anthropic_wire import MessagesServer
from providers.openai_wire import ChatServer
from providers.responses_wire import ResponsesServer

from flowloom import LlmResponse
from flowloom.testing.suites.model_answers import ANSWERS, LONG_TEXT, TEXT, joined
from flowloom.testing.suites.model_faults import FAULTS

Json = dict[str, Any]
Read = tuple[str, str, list[tuple[str | None, str, Json]], str]
"""Text, thoughts, calls, and why it ended, as an SDK has them."""
CUTS: dict[str, random.Random | int | None] = {"events": None, "bytes": 1, "anywhere": random.Random(7)}
ALL = {
    name
    for name, answer in ANSWERS.items()
    if str(answer.finish_reason).rpartition(".")[2] in ("STOP", "MAX_TOKENS", "SAFETY")
}


def untrusting() -> httpx2.AsyncClient:
    """A client for the loopback: it does not read the certificates, which takes longer than all else here."""
    return httpx2.AsyncClient(verify=False)


class Reader:
    """One SDK: how it is made, and how it reads an answer."""

    server: type[AnswerServer]
    lacks: frozenset[str] = frozenset()
    thoughts = True

    @asynccontextmanager
    async def client(self, url: str) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def whole(self, client: Any) -> Read:
        raise NotImplementedError

    async def streamed(self, client: Any) -> Read:
        raise NotImplementedError


class Chat(Reader):
    server = ChatServer
    lacks = frozenset({"call_without_id", "thoughts_in_between", "hidden_thought"})
    asked: Json = {"model": "gpt-5", "messages": [{"role": "user", "content": "go"}]}  # noqa: RUF012

    @asynccontextmanager
    async def client(self, url: str) -> AsyncIterator[Any]:
        async with openai.AsyncOpenAI(api_key="key", base_url=url, max_retries=0, http_client=untrusting()) as made:
            yield made

    async def whole(self, client: Any) -> Read:
        return self.read(await client.chat.completions.create(**self.asked))

    async def streamed(self, client: Any) -> Read:
        text, thoughts, reason = "", "", ""
        calls: dict[int, list[str]] = {}
        usage: list[Any] = []
        asked = {**self.asked, "stream": True, "stream_options": {"include_usage": True}}
        async for chunk in await client.chat.completions.create(**asked):
            usage += [chunk.usage] if chunk.usage else []
            for choice in chunk.choices:
                text += (choice.delta.content or "") + (choice.delta.refusal or "")
                thoughts += getattr(choice.delta, "reasoning_content", None) or ""
                for piece in choice.delta.tool_calls or ():
                    call = calls.setdefault(piece.index, [piece.id, piece.function.name, ""])
                    call[2] += piece.function.arguments
                reason = choice.finish_reason or reason
        assert [each.total_tokens > 0 for each in usage] == [True]
        return text, thoughts, [(call_id, name, json.loads(args)) for call_id, name, args in calls.values()], reason

    def read(self, completion: Any) -> Read:
        [choice] = completion.choices
        message = choice.message
        assert completion.usage.total_tokens > 0
        calls = [
            (each.id, each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls or ()
        ]
        text = (message.content or "") + (message.refusal or "")
        return text, getattr(message, "reasoning_content", None) or "", calls, choice.finish_reason


class Responses(Reader):
    server = ResponsesServer
    lacks = frozenset({"call_without_id"})
    asked: Json = {"model": "gpt-5", "input": "go"}  # noqa: RUF012

    @asynccontextmanager
    async def client(self, url: str) -> AsyncIterator[Any]:
        async with openai.AsyncOpenAI(api_key="key", base_url=url, max_retries=0, http_client=untrusting()) as made:
            yield made

    async def whole(self, client: Any) -> Read:
        return self.read(await client.responses.create(**self.asked))

    async def streamed(self, client: Any) -> Read:
        """As the events tell it, each in its turn, and as the last one does; both are the same."""
        text, thoughts, arguments = "", "", {}
        last = None
        numbers: list[int] = []
        async for event in await client.responses.create(**self.asked, stream=True):
            numbers.append(event.sequence_number)
            if event.type in ("response.output_text.delta", "response.refusal.delta"):
                text += event.delta
            elif event.type == "response.reasoning_summary_text.delta":
                thoughts += event.delta
            elif event.type == "response.function_call_arguments.delta":
                arguments[event.output_index] = arguments.get(event.output_index, "") + event.delta
            elif event.type in ("response.completed", "response.incomplete"):
                last = self.read(event.response)
        assert last is not None
        assert numbers == list(range(len(numbers)))
        assert (text, thoughts) == last[:2]
        assert [json.loads(each) for each in arguments.values()] == [args for _, _, args in last[2]]
        return last

    def read(self, response: Any) -> Read:
        text, thoughts = "", ""
        calls: list[tuple[str | None, str, Json]] = []
        for item in response.output:
            if item.type == "reasoning":
                thoughts += "".join(each.text for each in item.summary)
            elif item.type == "function_call":
                calls.append((item.call_id, item.name, json.loads(item.arguments)))
            else:
                text += "".join(part.refusal if part.type == "refusal" else part.text for part in item.content)
        return text, thoughts, calls, response.status


class Messages(Reader):
    server = MessagesServer
    lacks = frozenset({"call_without_id"})
    asked: Json = {  # noqa: RUF012
        "model": "claude-sonnet-5-5",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "go"}],
    }

    @asynccontextmanager
    async def client(self, url: str) -> AsyncIterator[Any]:
        async with anthropic.AsyncAnthropic(
            api_key="key", base_url=url, max_retries=0, http_client=untrusting()
        ) as made:
            yield made

    async def whole(self, client: Any) -> Read:
        return self.read(await client.messages.create(**self.asked))

    async def streamed(self, client: Any) -> Read:
        async with client.messages.stream(**self.asked) as stream:
            return self.read(await stream.get_final_message())

    def read(self, message: Any) -> Read:
        text = "".join(block.text for block in message.content if block.type == "text")
        thoughts = "".join(block.thinking for block in message.content if block.type == "thinking")
        assert all(block.signature for block in message.content if block.type == "thinking")
        calls = [(each.id, each.name, each.input) for each in message.content if each.type == "tool_use"]
        assert message.usage.input_tokens > 0
        return text, thoughts, calls, message.stop_reason


class Gemini(Reader):
    server = GeminiServer

    @asynccontextmanager
    async def client(self, url: str) -> AsyncIterator[Any]:
        async with untrusting() as http:
            options = types.HttpOptions(base_url=url, httpx_async_client=http)
            yield genai.Client(api_key="key", http_options=options).aio.models

    async def whole(self, client: Any) -> Read:
        return self.read([await client.generate_content(model="gemini-2.5-flash", contents="go")])

    async def streamed(self, client: Any) -> Read:
        stream = await client.generate_content_stream(model="gemini-2.5-flash", contents="go")
        return self.read([chunk async for chunk in stream])

    def read(self, chunks: list[types.GenerateContentResponse]) -> Read:
        candidates = [each for chunk in chunks for each in chunk.candidates or ()]
        parts = [part for each in candidates for part in (each.content.parts if each.content else None) or ()]
        text = "".join(part.text or "" for part in parts if not part.thought)
        thoughts = "".join(part.text or "" for part in parts if part.thought)
        calls = [(call.id, call.name or "", call.args or {}) for part in parts if (call := part.function_call)]
        return text, thoughts, calls, str(candidates[-1].finish_reason)


READERS: dict[str, Reader] = {"chat": Chat(), "responses": Responses(), "messages": Messages(), "gemini": Gemini()}
CASES = [(sdk, name) for sdk, reader in READERS.items() for name in ANSWERS if name in ALL - reader.lacks]
each_sdk = pytest.mark.parametrize("sdk", READERS)


def read_of(answer: LlmResponse) -> tuple[str, str, list[tuple[str | None, str, Json]]]:
    calls = [(call.id, call.name or "", call.args or {}) for call in answer.get_function_calls()]
    return joined(answer, False), joined(answer, True), calls


@pytest.mark.parametrize(("sdk", "name"), CASES)
async def test_the_sdk_reads_the_answer_that_was_given(sdk: str, name: str) -> None:
    reader, answer = READERS[sdk], ANSWERS[name]
    # Google sends no comments, and its SDK takes none
    with reader.server([answer, answer], cuts=random.Random(3), keep_alive=sdk != "gemini") as server:
        async with reader.client(server.url) as client:
            whole, streamed = await reader.whole(client), await reader.streamed(client)
    assert whole[:3] == read_of(answer)
    assert streamed == whole


@each_sdk
@pytest.mark.parametrize("cuts", CUTS)
async def test_streams_may_be_cut_anywhere(sdk: str, cuts: str) -> None:
    reader = READERS[sdk]
    answer = ANSWERS["odd_text"]
    with reader.server([answer], cuts=CUTS[cuts]) as server:
        async with reader.client(server.url) as client:
            assert (await reader.streamed(client))[0] == answer.text


def test_pieces_of_bytes_are_all_bytes() -> None:
    data = LONG_TEXT.text.encode()
    for cuts in (1, 7, random.Random(1)):
        pieces = cut(data, cuts)
        assert b"".join(pieces) == data
        assert all(pieces)
        assert len(pieces) > 10
    assert cut(b"", 1) == cut(b"", random.Random(1)) == []


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("text", ("stop", "completed", "end_turn", "FinishReason.STOP")),
        ("call", ("tool_calls", "completed", "tool_use", "FinishReason.STOP")),
        ("cut_off", ("length", "incomplete", "max_tokens", "FinishReason.MAX_TOKENS")),
        ("filtered", ("content_filter", "incomplete", "refusal", "FinishReason.SAFETY")),
        ("refusal", ("stop", "completed", "refusal", "FinishReason.SAFETY")),
    ],
)
async def test_reasons_to_end_are_in_the_words_of_the_provider(name: str, reasons: tuple[str, ...]) -> None:
    for reader, reason in zip(READERS.values(), reasons, strict=True):
        with reader.server([ANSWERS[name]]) as server:
            async with reader.client(server.url) as client:
                assert (await reader.whole(client))[3] == reason


ERRORS: dict[str, tuple[type[Exception], type[Exception]]] = {
    "refused_401": (openai.AuthenticationError, anthropic.AuthenticationError),
    "refused_429_for_7_seconds": (openai.RateLimitError, anthropic.RateLimitError),
    "refused_529": (openai.InternalServerError, anthropic.InternalServerError),
    "reset_before_an_answer": (openai.APIConnectionError, anthropic.APIConnectionError),
}


@pytest.mark.parametrize("fault", [name for name in ERRORS if name in FAULTS])
@pytest.mark.parametrize("sdk", ["chat", "responses", "messages"])
async def test_faults_are_what_the_sdk_takes_them_for(sdk: str, fault: str) -> None:
    reader = READERS[sdk]
    with reader.server([FAULTS[fault]]) as server:
        async with reader.client(server.url) as client:
            with pytest.raises(ERRORS[fault][sdk == "messages"]) as caught:
                await reader.whole(client)
    error: Any = caught.value
    if fault == "refused_429_for_7_seconds":
        assert error.response.headers["retry-after"] == "7"
        assert error.request_id == "req_1"
        assert error.body["error" if sdk == "messages" else "message"]


@pytest.mark.parametrize(("sdk", "kind"), [("chat", openai.APIError), ("messages", anthropic.APIStatusError)])
async def test_an_error_inside_of_a_stream_comes_after_some_of_the_answer(sdk: str, kind: type[Exception]) -> None:
    reader = READERS[sdk]
    with reader.server([FAULTS["error_inside"]]) as server:
        async with reader.client(server.url) as client:
            with pytest.raises(kind, match=r"The server had an error|Overloaded|overloaded"):
                await reader.streamed(client)


async def test_a_server_may_be_asked_what_to_answer() -> None:
    def answer(seen: Any) -> LlmResponse:
        return TEXT if seen.json["model"] == "gpt-5" else LONG_TEXT

    reader = READERS["chat"]
    with ChatServer(answer) as server:
        async with reader.client(server.url) as client:
            texts = [(await reader.whole(client))[0] for _ in range(2)]
            other = await client.chat.completions.create(**{**Chat.asked, "model": "other"})
    assert texts == [TEXT.text] * 2
    assert other.choices[0].message.content == LONG_TEXT.text
    assert [body["model"] for body in server.bodies] == ["gpt-5", "gpt-5", "other"]
