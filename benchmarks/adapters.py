"""What an adapter costs for each chunk of a stream, beside the SDK that it stands on.

Both read the same answer from a server on this machine, in turns. The answer is long, so that what is done once for a
call hardly counts. Only the time is taken in which their thread has the processor: the server is not in it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

from benchmarks.results import Row
from benchmarks.rounds import Plan, cell_of
from flowloom import AnthropicModel, BaseLlm, Gemini, LlmRequest, OpenAIModel

CHUNKS = 1000
AIM = 0.5
KEY = "no-real-key"
Reading = Callable[[str], Awaitable[str]]
"""Reads the answer of a server at a URL, and gives its text."""


@dataclass(frozen=True)
class Pair:
    """An SDK and the adapter on it."""

    name: str
    frames: list[str]
    sdk: Reading
    adapter: Callable[[str], BaseLlm]


def _words() -> list[str]:
    return [f"word {number} " for number in range(CHUNKS)]


def text() -> str:
    """What every answer says."""
    return "".join(_words())


# -- the answers -----------------------------------------------------------------------------------


def _data(event: dict[str, Any]) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _gemini() -> list[str]:
    usage = {"promptTokenCount": 7, "totalTokenCount": 12}

    def chunk(word: str, **more: Any) -> dict[str, Any]:
        candidate = {"content": {"role": "model", "parts": [{"text": word}]}, "index": 0, **more}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}

    return [*(_data(chunk(word)) for word in _words()), _data(chunk("", finishReason="STOP"))]


def _chat() -> list[str]:
    def chunk(finish: str | None, **delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "f"}
        return {**base, "choices": [choice]}

    frames = [chunk(None, role="assistant", content=""), *(chunk(None, content=word) for word in _words())]
    return [*map(_data, [*frames, chunk("stop")]), "data: [DONE]\n\n"]


def _responses() -> list[str]:
    where = {"item_id": "m", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": text(), "annotations": []}
    item = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [part]}
    deltas = [
        {"type": "response.output_text.delta", "sequence_number": n, **where, "delta": word, "logprobs": []}
        for n, word in enumerate(_words())
    ]
    done = {"type": "response.output_item.done", "sequence_number": 0, "output_index": 0, "item": item}
    response = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [item]}
    return [*map(_data, [*deltas, done, {"type": "response.completed", "sequence_number": 0, "response": response}])]


def _messages() -> list[str]:
    usage = {"input_tokens": 7, "output_tokens": 5}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}} for w in _words()),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return [_data(event) for event in events]


# -- the readers -----------------------------------------------------------------------------------


async def _joined(texts: AsyncIterator[str | None]) -> str:
    return "".join([text async for text in texts if text])


async def _sdk_gemini(url: str) -> str:
    options = types.HttpOptions(base_url=url)
    client = genai.Client(api_key=KEY, http_options=options)
    async with client.aio as aio:
        chunks = await aio.models.generate_content_stream(model="gemini-2.5-flash", contents="go")
        return await _joined(chunk.text async for chunk in chunks)


async def _sdk_chat(url: str) -> str:
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY) as client:
        messages: Any = [{"role": "user", "content": "go"}]
        chunks = await client.chat.completions.create(model="m", messages=messages, stream=True)
        return await _joined(chunk.choices[0].delta.content async for chunk in chunks)


async def _sdk_responses(url: str) -> str:
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY) as client:
        events = await client.responses.create(model="m", input="go", stream=True)
        return await _joined(event.delta async for event in events if event.type == "response.output_text.delta")


async def _sdk_messages(url: str) -> str:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client:
        messages: Any = [{"role": "user", "content": "go"}]
        events = await client.messages.create(model="m", messages=messages, max_tokens=9, stream=True)
        return await _joined(
            event.delta.text
            async for event in events
            if event.type == "content_block_delta" and event.delta.type == "text_delta"
        )


async def read(model: BaseLlm) -> str:
    """The text that an adapter streams; its partial responses have to say the same."""
    request = LlmRequest(contents=[types.Content(role="user", parts=[types.Part(text="go")])])
    pieces: list[str] = []
    async with aclosing(model.generate_content_async(request, stream=True)) as responses:
        async for response in responses:
            if not response.partial:
                if response.text != "".join(pieces):
                    raise RuntimeError(f"The partial responses of {model.model} say something else than the last.")
                return response.text
            pieces.append(response.text)
    raise RuntimeError(f"{model.model} gave no complete response.")


PAIRS = (
    Pair("Gemini", _gemini(), _sdk_gemini, lambda url: Gemini(api_key=KEY, base_url=url)),
    Pair("OpenAI chat", _chat(), _sdk_chat, lambda url: OpenAIModel(api_key=KEY, base_url=url)),
    Pair(
        "OpenAI Responses",
        _responses(),
        _sdk_responses,
        lambda url: OpenAIModel(api_key=KEY, base_url=url, api="responses"),
    ),
    Pair("Anthropic", _messages(), _sdk_messages, lambda url: AnthropicModel(api_key=KEY, base_url=url)),
)


# -- measuring -------------------------------------------------------------------------------------


class Answering:
    """A server on this machine that gives each request the same answer. A context manager, which gives its URL."""

    def __init__(self, frames: list[str], kind: str = "text/event-stream") -> None:
        body = "".join(frames).encode()

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1  # head and body go out together; apart, the second would wait for the first

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


async def _timed(reading: Awaitable[str]) -> float:
    started = time.thread_time()
    if await reading != text():
        raise RuntimeError("An answer was not read as it was given.")
    return time.thread_time() - started


async def _ratios(pair: Pair, url: str, plan: Plan) -> list[float]:
    model: Any = pair.adapter(url)
    await _timed(read(model))  # connections and caches
    await _timed(pair.sdk(url))
    gc.collect()
    gc.freeze()  # what the SDKs have loaded would be looked through now and then, in either's time
    ratios: list[float] = []
    for number in plan.each_round():
        if number % 2:
            own, sdk = await _timed(read(model)), await _timed(pair.sdk(url))
        else:
            sdk, own = await _timed(pair.sdk(url)), await _timed(read(model))
        ratios.append(own / sdk)
    gc.unfreeze()
    await model.aclose()
    return ratios


def run_adapter(pair: Pair, plan: Plan) -> Row:
    """One line: the adapter's time for a long stream beside the SDK's, in rounds with the order changed."""
    with Answering(pair.frames) as url:
        ratios = asyncio.run(_ratios(pair, url, plan))
    return Row(title_of(pair), f"× its SDK for {CHUNKS:,} chunks", AIM, {"flowloom": cell_of(ratios)})


def title_of(pair: Pair) -> str:
    """What the line is about."""
    return f"a stream read by the {pair.name} adapter"
