"""The least that a turn costs: a loop by hand over the same content types, with nothing kept but the contents."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from google.genai import types

from benchmarks import script


async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


async def wait(seconds: float) -> dict[str, float]:
    """Wait without blocking."""
    await asyncio.sleep(seconds)
    return {"waited": seconds}


def block(seconds: float) -> dict[str, float]:
    """Wait and block."""
    time.sleep(seconds)
    return {"blocked": seconds}


async def _block(seconds: float) -> dict[str, float]:
    return await asyncio.to_thread(block, seconds)


TOOLS: dict[str, Any] = {"add": add, "wait": wait, "block": _block}


class Engine:
    """One case on the bare loop; `size` is the number of exchanges in the history."""

    def __init__(self, case: str, size: int) -> None:
        self.case = case
        self.history = [content for number in range(size) for _, content in script.exchange(case, number)]

    async def start(self) -> None:
        return

    async def model(
        self, case: str, contents: list[types.Content], config: types.GenerateContentConfig
    ) -> types.Content:
        return script.answer(case, contents)

    async def stream(self, contents: list[types.Content]) -> AsyncIterator[types.Content]:
        for _ in range(script.CHUNKS):
            yield types.Content(role="model", parts=[types.Part(text="chunk ")])
        yield types.Content(role="model", parts=[types.Part(text="chunk " * script.CHUNKS)])

    async def turn(self) -> int:
        contents = self.history.copy()
        contents.append(types.Content(role="user", parts=[types.Part(text=script.QUESTION)]))
        seen, case = 0, self.case
        if case == "stream":
            async for chunk in self.stream(contents):
                seen += len(chunk.parts or ())
            return seen
        config = types.GenerateContentConfig(system_instruction=script.ROOT_INSTRUCTION)
        while True:
            content = await self.model(case, contents, config)
            contents.append(content)
            seen += 1
            asked = [part.function_call for part in content.parts or () if part.function_call is not None]
            if not asked:
                return seen
            for call in asked:
                call.id = str(uuid.uuid4())
            if asked[0].name == "transfer_to_agent":
                results: list[Any] = [{}]
                config = types.GenerateContentConfig(system_instruction=script.HELPER_INSTRUCTION)
                case = "text"
            elif len(asked) == 1:
                results = [await TOOLS[asked[0].name or ""](**(asked[0].args or {}))]
            else:
                results = await asyncio.gather(*(TOOLS[c.name or ""](**(c.args or {})) for c in asked))
            parts = [
                types.Part(function_response=types.FunctionResponse(id=c.id, name=c.name, response=r))
                for c, r in zip(asked, results, strict=True)
            ]
            contents.append(types.Content(role="user", parts=parts))
