"""What the model and the tools of an agent do that is served by both engines; it needs neither."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.genai import types

SAID = {"pieces": 0}
"""How many pieces the model has said in this process."""
_PAUSE = 0.01
"""Seconds between two pieces."""
_USAGE = {"prompt_token_count": 3, "candidates_token_count": 2, "total_token_count": 5}
_CALLS: dict[str, dict[str, Any]] = {"add": {"a": 1, "b": 2}, "pay": {"a": 1, "b": 2}, "colour": {"name": "red"}}
_SAID = {"hello": ["Hello", " you."], "long": ["On and on. "] * 300}


async def responses(contents: list[Any], make: Callable[..., Any]) -> AsyncGenerator[Any, None]:
    """What the model answers to `contents`; `make` makes a response of the engine's."""
    part = contents[-1].parts[-1]
    said = _answer(part.text or "", part.function_response and part.function_response.response, str(contents))
    if isinstance(said, dict):
        call = types.FunctionCall(**said)
        yield make(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
        return
    for piece in said:
        SAID["pieces"] += 1
        yield make(content=types.Content(role="model", parts=[types.Part(text=piece)]), partial=True)
        await asyncio.sleep(_PAUSE)
    whole = types.Content(role="model", parts=[types.Part(text="".join(said))])
    yield make(content=whole, usage_metadata=types.GenerateContentResponseUsageMetadata(**_USAGE))


def _answer(words: str, response: dict[str, Any] | None, request: str) -> dict[str, Any] | list[str]:
    """A call, or the pieces of a text: by the last words or result of a request, which `request` is as text."""
    if response is not None:
        return ["Done: ", json.dumps(response)]
    if words in _CALLS:
        return {"name": words, "args": _CALLS[words]}
    if words == "cart":
        return ["I see ", "shoes." if "2 shoes" in request else "nothing."]
    if words == "fail":
        raise ValueError("model boom")
    return _SAID[words]


def add(a: int, b: int) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


def pay(a: int, b: int) -> dict[str, int]:
    """Pays."""
    return {"paid": a + b}
