"""What the tests of context caching share: an adapter that caches, requests, and what their answers say."""

from __future__ import annotations

from typing import Any

from gemini_kit import Pauses
from google.genai import types
from kit import said, user
from models.wire_server import WireServer

from flowloom import ContextCacheConfig, Gemini, LlmRequest, LlmResponse, RetryOptions
from flowloom.models.context_cache import CacheMetadata

LONG = "Know all of this by heart. " * 600  # some 4,000 tokens
TOOL = types.Tool(function_declarations=[types.FunctionDeclaration(name="look", description="Looks.")])


def gemini(server: WireServer, config: ContextCacheConfig | None = None, **fields: Any) -> Gemini:
    fields = {"model": "gemini-2.5-flash", "api_key": "key", **fields}
    retry = RetryOptions(initial_delay=1, jitter=0, sleep=Pauses())
    return Gemini(
        base_url=server.url,
        retry_options=retry,
        context_cache_config=config or ContextCacheConfig(),
        **fields,
    )


def talk(turns: int, first: str = "m0") -> list[types.Content]:
    """Turns of a conversation whose last message waits for its answer."""
    contents = [user(first)]
    for number in range(1, turns):
        contents += [said("ok"), user(f"m{number}")]
    return contents


def ask(contents: list[types.Content], system: str = LONG, **fields: Any) -> LlmRequest:
    config = types.GenerateContentConfig(system_instruction=system, tools=[TOOL])
    return LlmRequest(contents=contents, config=config, **fields)


async def answer(model: Gemini, request: LlmRequest, *, stream: bool = False) -> LlmResponse:
    """The complete response."""
    return [each async for each in model.generate_content_async(request, stream)][-1]


def metadata(response: LlmResponse) -> CacheMetadata:
    assert isinstance(response.cache_metadata, CacheMetadata)
    return response.cache_metadata
