"""What the tests of the adapters on other SDKs share: what an adapter sends, and what it makes of an answer."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types
from kit import user
from models.wire_server import Reply, Seen, WireServer

from flowloom import BaseLlm, LlmRequest, LlmResponse


def ask(*contents: types.Content, **config: Any) -> LlmRequest:
    """A request of these contents, by default of one word, with these settings."""
    said = list(contents) or [user("go")]
    return LlmRequest(contents=said, config=types.GenerateContentConfig(**config))


def call(name: str, call_id: str | None = None, /, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def result(name: str, call_id: str | None = None, /, **response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))


def inline(mime_type: str, data: bytes = b"data", name: str | None = None) -> types.Part:
    return types.Part(inline_data=types.Blob(mime_type=mime_type, data=data, display_name=name))


def at(mime_type: str, uri: str) -> types.Part:
    return types.Part(file_data=types.FileData(mime_type=mime_type, file_uri=uri))


def frame(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def whole(data: Any, status: int = 200, **headers: str) -> Reply:
    """An answer that comes at once."""
    return Reply([json.dumps(data).encode()], status=status, headers=headers)


async def answers(llm: BaseLlm, request: LlmRequest | None = None, *, stream: bool = False) -> list[LlmResponse]:
    """All responses to a request."""
    return [each async for each in llm.generate_content_async(request or ask(), stream)]


async def sent(llm: BaseLlm, server: WireServer, request: LlmRequest, *, stream: bool = False) -> Any:
    """The JSON that a server gets for a request."""
    await answers(llm, request, stream=stream)
    return seen(server).json


def seen(server: WireServer) -> Seen:
    """The request that came last."""
    return server.requests[-1]
