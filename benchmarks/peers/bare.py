"""The least that a turn costs: a loop by hand over google-genai's content types, with nothing kept but the contents."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.genai import types

from benchmarks import script
from benchmarks.peers import google_contents
from benchmarks.toolbox import add, block, plus, wait


async def _block(seconds: float) -> dict[str, float]:
    return await asyncio.to_thread(block, seconds)


async def _plus(a: int, b: int) -> dict[str, int]:
    return plus(a, b)


_TOOLS: dict[str, Callable[..., Any]] = {"add": add, "plus": _plus, "wait": wait, "block": _block}


class BareLoop:
    """One case by hand; `size` is the number of exchanges in the history."""

    def __init__(self, case: str, size: int) -> None:
        self.case = case
        self.batch = script.turns_of(case)
        exchanges = size if case in script.HISTORIES else 0
        self.history = [c for number in range(exchanges) for _, c in google_contents.exchange(case, number)]

    async def start(self) -> None:
        return

    async def turn(self) -> str:
        if self.case == "concurrent":
            return (await asyncio.gather(*(self.run() for _ in range(script.RUNS))))[-1]
        return await self.run()

    async def run(self) -> str:
        contents = self.history.copy()
        contents.append(google_contents.user())
        case = self.case
        if case == "stream":
            last = ""
            async for chunk in self.stream():
                last = (chunk.parts or [types.Part()])[0].text or ""
            return last
        config = types.GenerateContentConfig(system_instruction=script.ROOT_INSTRUCTION)
        while True:
            content = await self.model(case, contents, config)
            contents.append(content)
            parts = content.parts or []
            asked = [part.function_call for part in parts if part.function_call is not None]
            if not asked:
                return parts[0].text or ""
            for call in asked:
                call.id = str(uuid.uuid4())
            if asked[0].name == script.HANDOVER:
                results: list[Any] = [{}]
                config = types.GenerateContentConfig(system_instruction=script.HELPER_INSTRUCTION)
                case = "helper"
            elif len(asked) == 1:
                results = [await _TOOLS[asked[0].name or ""](**(asked[0].args or {}))]
            else:
                results = await asyncio.gather(*(_TOOLS[c.name or ""](**(c.args or {})) for c in asked))
            answers = [
                types.Part(function_response=types.FunctionResponse(id=c.id, name=c.name, response=r))
                for c, r in zip(asked, results, strict=True)
            ]
            contents.append(types.Content(role="user", parts=answers))

    async def model(
        self, case: str, contents: list[types.Content], config: types.GenerateContentConfig
    ) -> types.Content:
        return google_contents.answer(case, contents)

    async def stream(self) -> AsyncIterator[types.Content]:
        for _ in range(script.CHUNKS):
            yield google_contents.said(script.PIECE)
        yield google_contents.said(script.PIECE * script.CHUNKS)


def engine(case: str, size: int) -> BareLoop:
    """One case on the bare loop."""
    return BareLoop(case, size)
