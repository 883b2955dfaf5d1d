"""pydantic-ai: its function model answers by the script, the history is the list of messages of the turns before.

Usage is filled in by the script, because the function model would otherwise estimate it from the whole history. A
handover between agents is a matter of the caller's own code in pydantic-ai, so that `transfer` and `tree` stay out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from benchmarks import script
from benchmarks.toolbox import add, block, several, wait


def _response(*parts: TextPart | ToolCallPart) -> ModelResponse:
    return ModelResponse(parts=list(parts), usage=RequestUsage(input_tokens=1, output_tokens=1))


class PydanticAIEngine:
    """One case on pydantic-ai."""

    def __init__(self, case: str, size: int) -> None:
        self.case, self.size = case, size
        self.batch = script.turns_of(case)
        functions: list[Any] = [add, wait, block] if case in script.TOOL_CASES else []
        self.agent = Agent(
            FunctionModel(self.respond, stream_function=self.pieces),
            instructions=script.ROOT_INSTRUCTION,
            tools=list(several(size)) if case == "tools" else functions,
        )
        self.messages: list[ModelMessage] = []

    async def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        found = script.answer(self.case, sum(isinstance(part, ToolReturnPart) for part in messages[-1].parts))
        if isinstance(found, str):
            return _response(TextPart(found))
        return _response(*(ToolCallPart(call.name, dict(call.args)) for call in found))

    async def pieces(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for _ in range(script.CHUNKS):
            yield script.PIECE

    async def start(self) -> None:
        self.messages = []
        for _ in range(self.size if self.case == "history" else 0):
            self.messages.append(ModelRequest(parts=[UserPromptPart(script.QUESTION)]))
            self.messages.append(_response(TextPart(script.DONE)))

    async def turn(self) -> str:
        if self.case == "concurrent":
            results = await asyncio.gather(*(self.agent.run(script.QUESTION) for _ in range(script.RUNS)))
            return min(result.output for result in results)
        if self.case == "stream":
            return await self.stream()
        result = await self.agent.run(script.QUESTION, message_history=self.messages)
        self.messages = result.all_messages()
        return result.output

    async def stream(self) -> str:
        async with self.agent.run_stream(script.QUESTION, message_history=self.messages) as result:
            pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
        self.messages = result.all_messages()
        return "".join(pieces)


def engine(case: str, size: int) -> PydanticAIEngine:
    """One case on pydantic-ai."""
    return PydanticAIEngine(case, size)
