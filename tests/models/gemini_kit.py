"""What the tests of the Gemini adapter share: an adapter that talks to the loopback server, and requests."""

from __future__ import annotations

from typing import Any

from google.genai import types
from kit import user
from models.wire_server import WireServer

from flowloom import Gemini, LlmRequest, LlmResponse, RetryOptions


class Pauses:
    """Stands in for waiting; keeps how long each pause would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def adapter(server: WireServer, pauses: Pauses | None = None, **fields: Any) -> Gemini:
    retry = RetryOptions(initial_delay=1, jitter=0, sleep=pauses or Pauses())
    fields.setdefault("retry_options", retry)
    fields.setdefault("api_key", "key")
    return Gemini(model="gemini-2.5-flash", base_url=server.url, **fields)


def vertex(server: WireServer, **fields: Any) -> Gemini:
    return adapter(server, vertexai=True, **fields)


def ask(*contents: types.Content, **config: Any) -> LlmRequest:
    settings = types.GenerateContentConfig(**config)
    return LlmRequest(contents=list(contents) or [user("go")], config=settings)


async def answers(model: Gemini, request: LlmRequest | None = None, *, stream: bool = False) -> list[LlmResponse]:
    """All responses to a request; the connections are closed."""
    try:
        return [each async for each in model.generate_content_async(request or ask(), stream)]
    finally:
        await model.aclose()


def said(response: LlmResponse) -> str:
    """The text of a response."""
    return "".join(part.text or "" for part in (response.content and response.content.parts) or ())
