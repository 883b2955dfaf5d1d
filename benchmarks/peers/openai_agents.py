"""openai-agents: a model of its own that answers by the script, tracing off, the history as a list of input items.

The list is what `to_input_list` gives after each turn. `SQLiteSession`, which is openai-agents' session in memory, goes
through a thread and SQL for every turn and is slower.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from benchmarks import script
from benchmarks.toolbox import add, block, several, wait

set_tracing_disabled(True)


def _text(words: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=words, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id=str(uuid.uuid4()), content=[part], role="assistant", status="completed", type="message"
    )


def _call(call: script.Call) -> ResponseFunctionToolCall:
    name = "transfer_to_helper" if call.name == script.HANDOVER else call.name
    arguments = "{}" if call.name == script.HANDOVER else json.dumps(call.args)
    return ResponseFunctionToolCall(
        call_id=str(uuid.uuid4()), name=name, arguments=arguments, type="function_call", id=str(uuid.uuid4())
    )


def _results(items: Any) -> int:
    count = 0
    for item in reversed(items if isinstance(items, list) else []):
        if item.get("role") == "user":
            break
        count += item.get("type") == "function_call_output"
    return count


class Scripted(Model):
    """Answers by the script."""

    def __init__(self, case: str) -> None:
        self.case = case

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        found = script.answer(self.case, _results(input))
        output: list[Any] = [_text(found)] if isinstance(found, str) else [_call(call) for call in found]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        for number in range(script.CHUNKS):
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta=script.PIECE,
                item_id="m",
                output_index=0,
                sequence_number=number,
                type="response.output_text.delta",
                logprobs=[],
            )
        whole = Response(
            id="r",
            created_at=0,
            model="m",
            object="response",
            output=[_text(script.PIECE * script.CHUNKS)],
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(response=whole, type="response.completed", sequence_number=script.CHUNKS)


class OpenAIAgentsEngine:
    """One case on openai-agents."""

    def __init__(self, case: str, size: int) -> None:
        self.case, self.size = case, size
        self.batch = script.turns_of(case)
        functions: list[Any] = [add, wait, block] if case in script.TOOL_CASES else []
        functions = list(several(size)) if case == "tools" else functions
        others = [f"agent_{number}" for number in range(size - 1)] if case == "tree" else []
        others = ["helper"] if case == "transfer" else others
        self.agent = Agent(
            name="root",
            instructions=script.ROOT_INSTRUCTION,
            model=Scripted(case),
            tools=[function_tool(function) for function in functions],
            handoffs=[
                Agent(
                    name=name,
                    handoff_description="Helps.",
                    instructions=script.HELPER_INSTRUCTION,
                    model=Scripted("helper"),
                )
                for name in others
            ],
        )
        self.config = RunConfig(tracing_disabled=True)
        self.items: list[Any] = []

    async def start(self) -> None:
        self.items = []
        for _ in range(self.size if self.case == "history" else 0):
            self.items += [{"role": "user", "content": script.QUESTION}, _text(script.DONE).model_dump()]

    async def turn(self) -> str:
        if self.case == "concurrent":
            results = await asyncio.gather(*(self.run([]) for _ in range(script.RUNS)))
            return min(result.final_output for result in results)
        result = await (self.stream() if self.case == "stream" else self.run(self.items))
        self.items = result.to_input_list()
        return result.final_output

    async def run(self, items: list[Any]) -> Any:
        message = {"role": "user", "content": script.QUESTION}
        return await Runner.run(self.agent, [*items, message], run_config=self.config)

    async def stream(self) -> Any:
        message: Any = {"role": "user", "content": script.QUESTION}
        result = Runner.run_streamed(self.agent, [*self.items, message], run_config=self.config)
        async for _ in result.stream_events():
            pass
        return result


def engine(case: str, size: int) -> OpenAIAgentsEngine:
    """One case on openai-agents."""
    return OpenAIAgentsEngine(case, size)
