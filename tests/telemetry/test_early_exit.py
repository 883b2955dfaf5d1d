"""However a run ends, every span ends once and no context stays behind (decision 22)."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.context.context import Context
from opentelemetry.trace import StatusCode

from flowloom import BaseLlm, InMemoryRunner, LlmAgent, LlmRequest, LlmResponse, ParallelAgent, SequentialAgent
from flowloom.telemetry.current import Watched, leave
from flowloom.testing.scripted import FunctionModel, call
from telemetry.agents import SSE, agent, answer, context, run
from telemetry.conftest import Recording


def look() -> str:
    """Looks."""
    return "seen"


def story() -> Any:
    """A sequence of agents side by side, one of which streams and calls tools."""
    busy = agent(
        [
            [answer("a", partial=True), answer("ab")],
            [answer("c", partial=True), LlmResponse(content=_calls())],
            "done",
        ],
        "busy",
        tools=[look],
    )
    side = ParallelAgent(name="side", sub_agents=[busy, agent(["x"], "quiet")])
    return SequentialAgent(name="all", sub_agents=[agent([call("look"), "y"], "first", tools=[look]), side])


def _calls() -> Any:
    return {"role": "model", "parts": [call("look"), call("look")]}


@pytest.mark.parametrize("stop_after", range(1, 9))
async def test_a_consumer_may_leave_at_any_event(recording: Recording, stop_after: int) -> None:
    """All spans end; leaving is no error; nothing is current afterwards."""
    root = story()
    seen = 0
    events = root.run_async(context(root, run_config=SSE))
    async for _ in events:
        assert trace.get_current_span() is trace.INVALID_SPAN
        seen += 1
        if seen == stop_after:
            break
    await events.aclose()
    assert recording.open == []
    assert recording.span("invoke_agent all").status.status_code is StatusCode.UNSET
    assert otel.get_current() == {}


async def test_a_stream_may_be_closed_by_another_task(recording: Recording) -> None:
    """One task reads a chunk, another one, in a context of its own, closes."""
    root = agent([[answer("a", partial=True), answer("ab")]])
    runner = InMemoryRunner(root)
    events = runner.run_async(user_id="u", session_id="s", new_message="hi", run_config=SSE)
    await asyncio.create_task(events.__anext__())  # type: ignore[arg-type]
    assert recording.open == ["invoke_agent bot", "generate_content scripted"]
    await asyncio.create_task(events.aclose(), context=contextvars.Context())  # type: ignore[arg-type]
    assert recording.open == []


async def test_each_chunk_may_be_read_by_another_task(recording: Recording) -> None:
    """A generator that wanders between tasks leaves nothing in any of them."""
    root = agent([[answer("a", partial=True), LlmResponse(content=_calls())], "done"], tools=[look])
    events = root.run_async(context(root, run_config=SSE))
    count = 0
    while True:
        try:
            await asyncio.create_task(events.__anext__(), context=contextvars.Context())  # type: ignore[arg-type]
        except StopAsyncIteration:
            break
        count += 1
    assert count == 4
    assert recording.names.count("execute_tool look") == 2


@pytest.mark.parametrize("where", ["model", "tool", "callback"])
async def test_cancelling_ends_all_spans_without_an_error(recording: Recording, where: str) -> None:
    """In the middle of a model call, of tools side by side, and of a callback."""
    waiting = asyncio.Event()

    async def wait(*_: Any, **__: Any) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    async def slow() -> str:
        await wait()
        return ""

    if where == "model":
        root = LlmAgent(name="bot", model=FunctionModel(wait))
    elif where == "tool":
        root = agent([[call("slow"), call("slow")]], tools=[slow])
    else:
        root = agent(["ok"], after_model_callback=wait)
    task = asyncio.create_task(run(root))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recording.open == []
    assert {span.status.status_code for span in recording.spans} == {StatusCode.UNSET}


async def test_a_timeout_around_the_run_ends_all_spans(recording: Recording) -> None:
    """`asyncio.timeout` is a cancellation like any other."""

    async def never(_: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield answer("a", partial=True)
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await run(LlmAgent(name="bot", model=FunctionModel(never)), SSE)
    assert recording.open == []


async def test_an_error_in_one_branch_ends_the_others_without_one(recording: Recording) -> None:
    """The branch that failed and the agents above have failed; its cancelled sibling has not."""

    async def never(_: LlmRequest) -> Any:
        await asyncio.Event().wait()

    members = [agent([ValueError("broken")], "bad"), LlmAgent(name="slow", model=FunctionModel(never))]
    with pytest.raises(ValueError, match="broken"):
        await run(ParallelAgent(name="all", sub_agents=members))
    failed = {span.name for span in recording.spans if span.status.status_code is StatusCode.ERROR}
    assert failed == {"invoke_agent all", "invoke_agent bad", "generate_content scripted"}
    assert {"invoke_agent slow", "generate_content function"} <= set(recording.names)


class _Untidy(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        try:
            yield answer("a", partial=True)
            yield answer("ab")
        finally:
            raise RuntimeError("clean-up")


async def test_a_model_that_fails_to_close_ends_its_span(recording: Recording) -> None:
    """The error of its clean-up is raised, and the span has ended all the same."""
    root = LlmAgent(name="bot", model=_Untidy(model="untidy"))
    events = root.run_async(context(root, run_config=SSE))
    await events.__anext__()
    with pytest.raises(RuntimeError, match="clean-up"):
        await events.aclose()
    assert recording.open == []


class _Waits:
    def __aiter__(self) -> _Waits:
        return self

    async def __anext__(self) -> int:
        await asyncio.Event().wait()
        return 1


async def test_a_coroutine_that_is_closed_elsewhere_leaves_no_trace() -> None:
    """What a task that was thrown away has entered is left quietly, in whatever context that happens."""
    ours = otel.set_value("mine", 1, Context())
    step = Watched(_Waits(), ours).__anext__()
    there = contextvars.copy_context()
    there.run(step.send, None)
    assert there.run(otel.get_current) == ours
    step.close()
    assert otel.get_current() == {}


def test_a_context_is_left_only_where_it_was_entered() -> None:
    """In another context there is nothing to leave."""
    token = otel.attach(otel.set_value("mine", 1))
    contextvars.Context().run(leave, token)
    assert otel.get_value("mine") == 1
    leave(token)
    assert otel.get_value("mine") is None
