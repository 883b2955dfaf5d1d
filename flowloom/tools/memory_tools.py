"""`load_memory` and `preload_memory`: what is remembered from other sessions (spec §20.2)."""

from __future__ import annotations

from typing import Any

from flowloom.context import Context
from flowloom.events.parts import parts_of
from flowloom.memory import MemoryEntry
from flowloom.models.request import LlmRequest
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.function_tool import FunctionTool


async def search(query: str, tool_context: Context) -> dict[str, Any]:
    """Search what is remembered of earlier conversations with this user.

    Args:
        query: What to look for, in a few words.
    """
    found = await tool_context.search_memory(query)
    return {"memories": [_line(entry) for entry in found.memories]}


def _line(entry: MemoryEntry) -> str:
    text = " ".join(part.text for part in entry.content.parts or () if part.text)
    about = ", ".join(str(fact) for fact in (entry.author, entry.timestamp) if fact)
    return f"{text} ({about})" if about else text


class LoadMemoryTool(FunctionTool):
    """Lets the model search the memory service."""

    def __init__(self) -> None:
        super().__init__(search, name="load_memory")

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        llm_request.append_tools([self])
        llm_request.append_instructions(
            [f"You have a memory of earlier conversations. When the answer may be in it, call `{self.name}` first."]
        )


class PreloadMemoryTool(BaseTool):
    """Puts what is remembered about the user's message into the request, without the model asking."""

    def __init__(self) -> None:
        super().__init__(name="preload_memory", description="")

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        message = tool_context.user_content
        query = " ".join(part.text for part in parts_of(message) if part.text)
        if not query or tool_context.invocation_context.memory_service is None:
            return
        found = await tool_context.search_memory(query)
        if found.memories:
            lines = "\n".join(f"- {_line(entry)}" for entry in found.memories)
            llm_request.append_instructions([f"From earlier conversations with this user, if it helps:\n{lines}"])


load_memory = LoadMemoryTool()
preload_memory = PreloadMemoryTool()
