"""Agents of every kind that wait at many points, and what may not be left of a run of them."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from types import TracebackType
from typing import Any

from kit import STREAMED, Chat, hand_to, open_calls, text

from flowloom import AgentTool, LlmAgent, LlmResponse, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from flowloom.testing import ScriptedModel, call


class Distant(ScriptedModel):
    """A model that is waited for: before, between and after its chunks, and when it is closed."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        await asyncio.sleep(0)
        answers = super().generate_content_async(llm_request, stream)
        try:
            async for response in answers:
                yield response
                await asyncio.sleep(0)
        finally:
            await answers.aclose()


async def wait() -> str:
    """Wait without blocking."""
    await asyncio.sleep(0)
    return "waited"


def block() -> str:
    """Wait and block."""
    time.sleep(0.002)
    return "blocked"


Tool = Callable[..., Any]


def chunked(*answers: Any) -> Distant:
    return Distant([*answers, *["again"] * 9], stream_chunks=True)


def worker(name: str, tool: Tool, **fields: Any) -> LlmAgent:
    again = call(tool.__name__)
    model = chunked([text("hm", thought=True), call("wait"), again], again, "the answer")
    return LlmAgent(name=name, model=model, tools=[wait] if tool is wait else [wait, tool], **fields)


def transferring(tool: Tool) -> LlmAgent:
    helper = worker("helper", tool, disallow_transfer_to_parent=True)
    return LlmAgent(name="root", model=chunked(hand_to("helper")), sub_agents=[helper])


def with_agent_tools(tool: Tool) -> LlmAgent:
    side = ParallelAgent(name="side", sub_agents=[worker("leaf", tool)])
    calls = [call("child", request="x"), call("side", request="y")]
    return LlmAgent(name="root", model=chunked(calls), tools=[AgentTool(worker("child", tool)), AgentTool(side)])


def delegating(tool: Tool) -> LlmAgent:
    clerks = [worker(name, tool, mode="single_turn") for name in ("clerk", "typist")]  # which run at once
    calls = [call("clerk", request="x"), call("typist", request="y")]
    return LlmAgent(name="root", model=chunked(calls), sub_agents=clerks)


KINDS: dict[str, Callable[[Tool], Any]] = {
    "one agent": lambda tool: worker("root", tool),
    "a transfer": transferring,
    "agent tools": with_agent_tools,
    "delegations": delegating,
    "a sequence": lambda tool: SequentialAgent(name="row", sub_agents=[worker("a", tool), worker("b", tool)]),
    "a loop": lambda tool: LoopAgent(name="loop", sub_agents=[worker("a", tool)], max_iterations=2),
    "parallel agents": lambda tool: ParallelAgent(name="side", sub_agents=[worker("a", tool), worker("b", tool)]),
    "parallel transfers": lambda tool: ParallelAgent(name="side", sub_agents=[transferring(tool), worker("b", tool)]),
}
FORWARDING = RunConfig(forward_agent_tool_events=True, streaming_mode=STREAMED.streaming_mode)
CONFIGS = {"plain": None, "streamed": STREAMED, "forwarding": FORWARDING}


class NothingLeft:
    """Holds that whatever was begun within has ended: generators, tasks, threads."""

    def __enter__(self) -> None:
        self._hooks = sys.get_asyncgen_hooks()
        self.begun: list[AsyncGenerator[Any, Any]] = []
        sys.set_asyncgen_hooks(firstiter=self.begun.append, finalizer=self._hooks.finalizer)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.set_asyncgen_hooks(*self._hooks)
        if kind is not None:
            return
        assert [each for each in self.begun if each.ag_frame is not None] == []
        assert asyncio.all_tasks() - {asyncio.current_task()} == set()
        assert [each.name for each in threading.enumerate() if each.name.startswith("flowloom:")] == []


class CancelledAt:
    """Awaits a coroutine, and cancels the task it runs in when it waits for the n-th time."""

    def __init__(self, running: Coroutine[Any, Any, Any], number: int) -> None:
        self.running = running
        self.number = number
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self.running.__await__()
        go_on = partial(inner.send, None)
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                waits_for = go_on()
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self.number:
                task.cancel()
            try:
                yield waits_for
            except BaseException as error:
                go_on = partial(inner.throw, error)
            else:
                go_on = partial(inner.send, None)


async def goes_on(chat: Chat) -> None:
    """The history is legal, and the next message is answered."""
    events = await chat.stored()
    assert open_calls(events) == set()
    assert len({event.id for event in events}) == len(events)
    assert (await chat.say("and now?"))[-1].is_final_response()


async def cancelled_at(number: int, run: Coroutine[Any, Any, Any]) -> bool:
    """Cancel a run at one of its waits; False if it has not so many."""
    awaited = CancelledAt(run, number)

    async def running() -> Any:
        return await awaited

    (ended,) = await asyncio.gather(asyncio.create_task(running()), return_exceptions=True)
    assert awaited.waits < number or isinstance(ended, asyncio.CancelledError)
    return awaited.waits >= number
