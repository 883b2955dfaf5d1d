"""What the tests of wrappers share: requests, models that tell how they were used, and answers put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types
from kit import user

from flowloom import BaseLlm, LlmRequest, LlmResponse
from flowloom.testing import ScriptedModel


def ask(text: str = "Hello?", **config: Any) -> LlmRequest:
    """A request of one question, for whatever model it reaches."""
    return LlmRequest(contents=[user(text)], config=types.GenerateContentConfig(**config))


async def responses(model: BaseLlm, request: LlmRequest | None = None, *, stream: bool = False) -> list[LlmResponse]:
    return [each async for each in model.generate_content_async(request or ask(), stream)]


async def texts(model: BaseLlm, request: LlmRequest | None = None, *, stream: bool = False) -> list[str]:
    """What each response says, partial ones marked."""
    found = await responses(model, request, stream=stream)
    return [f"{each.text}~" if each.partial else each.text for each in found]


async def told(model: BaseLlm, request: LlmRequest | None = None) -> str:
    """The text of the complete answer."""
    return (await responses(model, request))[-1].text


class Endless(BaseLlm):
    """Streams for ever, one chunk at each step, and says whether it was closed."""

    model: str = "endless"
    chunks: int = 0
    closed: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        try:
            while True:
                self.chunks += 1
                yield LlmResponse(content=types.ModelContent(f"{self.chunks} "), partial=True)
        finally:
            self.closed += 1


def scripted(*answers: Any, **fields: Any) -> ScriptedModel:
    """A model with this script, which streams in chunks."""
    return ScriptedModel(answers, stream_chunks=True, **fields)


async def steps(count: int = 5) -> None:
    """Let everybody go on as far as they can."""
    for _ in range(count):
        await asyncio.sleep(0)


class Held(BaseLlm):
    """Answers when the test lets it: two chunks, and the whole; says how often it was asked."""

    model: str = "held"
    asked: int = 0
    closed: int = 0
    go: Any = None
    error: Any = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked += 1
        number = self.asked
        try:
            if stream:
                yield LlmResponse(content=types.ModelContent("Answer "), partial=True)
            await self.go.wait()
            if self.error is not None:
                raise self.error
            if stream:
                yield LlmResponse(content=types.ModelContent(f"{number}"), partial=True)
            yield LlmResponse(content=types.ModelContent(f"Answer {number}"))
        finally:
            self.closed += 1


class Pauses:
    """Stands in for waiting; keeps how long each pause would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
