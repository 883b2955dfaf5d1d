"""What it costs an adapter to read an answer that comes at once, beside what the SDK that it stands on makes of it.

Both have the same answer of the SDK's, unparsed and with all its bytes there, and read it in turns: into the response
that a model gives, and into the SDK's own objects. The way to the server and back is the SDK's in both cases.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

from benchmarks.adapters import AIM, KEY, Answering
from benchmarks.results import Row
from benchmarks.rounds import Plan, cell_of
from flowloom.providers.anthropic_answers import MessagesReader
from flowloom.providers.openai_chat_answers import ChatReader
from flowloom.providers.openai_responses_answers import ResponsesReader
from flowloom.providers.sdk_call import AnswerReader, SdkAnswer

ANSWERS = 25
"""How many answers are read in a round."""
TEXT = "Let me see what the weather is like there. "
NAME = "get_weather"
_Reads = Callable[["Reading", Any], Awaitable[tuple[str, str]]]
ARGUMENTS = {"city": "Oslo", "days": 3}


@dataclass(frozen=True)
class Reading:
    """An SDK and the reader of the adapter on it."""

    name: str
    body: dict[str, Any]
    client: Callable[..., Any]
    sent: Callable[[Any], AbstractAsyncContextManager[Any]]
    """Asks the client's server, and gives the answer unparsed."""
    reader: Callable[[str], AnswerReader]
    seen: Callable[[Any], tuple[str, str]]
    """The text and the name of the call in what the SDK makes of the answer."""


def _chat() -> dict[str, Any]:
    call = {"id": "t", "type": "function", "function": {"name": NAME, "arguments": json.dumps(ARGUMENTS)}}
    message = {"role": "assistant", "content": TEXT, "refusal": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def _responses() -> dict[str, Any]:
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    message = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [part]}
    call = {"type": "function_call", "id": "f", "call_id": "t", "name": NAME, "arguments": json.dumps(ARGUMENTS)}
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    answer = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "usage": usage}
    return {**answer, "output": [message, call]}


def _messages() -> dict[str, Any]:
    text = {"type": "text", "text": TEXT}
    call = {"type": "tool_use", "id": "t", "name": NAME, "input": ARGUMENTS}
    answer = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [text, call]}
    usage = {"input_tokens": 7, "output_tokens": 5}
    return {**answer, "stop_reason": "tool_use", "stop_sequence": None, "usage": usage}


def _sent_chat(client: openai.AsyncOpenAI) -> AbstractAsyncContextManager[Any]:
    messages: Any = [{"role": "user", "content": "go"}]
    return client.chat.completions.with_streaming_response.create(model="m", messages=messages)


def _sent_responses(client: openai.AsyncOpenAI) -> AbstractAsyncContextManager[Any]:
    return client.responses.with_streaming_response.create(model="m", input="go")


def _sent_messages(client: anthropic.AsyncAnthropic) -> AbstractAsyncContextManager[Any]:
    messages: Any = [{"role": "user", "content": "go"}]
    return client.messages.with_streaming_response.create(model="m", messages=messages, max_tokens=9)


def _seen_chat(parsed: Any) -> tuple[str, str]:
    message = parsed.choices[0].message
    return message.content, message.tool_calls[0].function.name


READINGS = (
    Reading("OpenAI chat", _chat(), openai.AsyncOpenAI, _sent_chat, ChatReader, _seen_chat),
    Reading(
        "OpenAI Responses",
        _responses(),
        openai.AsyncOpenAI,
        _sent_responses,
        ResponsesReader,
        lambda parsed: (parsed.output_text, parsed.output[1].name),
    ),
    Reading(
        "Anthropic",
        _messages(),
        anthropic.AsyncAnthropic,
        _sent_messages,
        MessagesReader,
        lambda parsed: (parsed.content[0].text, parsed.content[1].name),
    ),
)


async def _own(reading: Reading, sent: Any) -> tuple[str, str]:
    answer = SdkAnswer(sent.http_response, reading.reader("m"), "m", stream=False)
    (response,) = await answer.read_responses()
    return response.text, response.get_function_calls()[0].name or ""


async def _sdk(reading: Reading, sent: Any) -> tuple[str, str]:
    return reading.seen(await sent.parse())


async def _timed(reading: Reading, answers: list[Any], read: _Reads) -> float:
    started = time.thread_time()
    seen = [await read(reading, sent) for sent in answers]
    spent = time.thread_time() - started
    if seen != [(TEXT, NAME)] * len(answers):
        raise RuntimeError(f"An answer of {reading.name} was not read as it was given.")
    return spent


async def _ratio(reading: Reading, client: Any, first: _Reads, second: _Reads) -> float:
    async with AsyncExitStack() as stack:
        answers = [await stack.enter_async_context(reading.sent(client)) for _ in range(ANSWERS)]
        for sent in answers:
            await sent.read()
        spent = {read: await _timed(reading, answers, read) for read in (first, second)}
    return spent[_own] / spent[_sdk]


async def _ratios(reading: Reading, url: str, plan: Plan) -> list[float]:
    ratios: list[float] = []
    async with reading.client(base_url=url, api_key=KEY) as client:
        await _ratio(reading, client, _own, _sdk)  # what is made once
        gc.collect()
        gc.freeze()  # what the SDKs have loaded would be looked through now and then, in either's time
        for number in plan.each_round():
            order = (_own, _sdk) if number % 2 else (_sdk, _own)
            ratios.append(await _ratio(reading, client, *order))
        gc.unfreeze()
    return ratios


def run_reading(reading: Reading, plan: Plan) -> Row:
    """One line: the time in which an adapter reads whole answers beside the SDK's, in rounds with the order changed."""
    with Answering([json.dumps(reading.body)], "application/json") as url:
        ratios = asyncio.run(_ratios(reading, url, plan))
    return Row(title_of(reading), "× its SDK's parsing", AIM, {"flowloom": cell_of(ratios)})


def title_of(reading: Reading) -> str:
    """What the line is about."""
    return f"a whole answer read by the {reading.name} adapter"
