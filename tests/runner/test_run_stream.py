"""The typed stream of a run: it always ends, and says how."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, hand_to

from flowloom import (
    FunctionTool,
    InMemoryRunner,
    InMemorySessionService,
    Limits,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    Runner,
    SequentialAgent,
    ToolContext,
)
from flowloom.plugins import BasePlugin
from flowloom.run_stream import (
    RunFailed,
    RunFinished,
    RunStarted,
    RunStreamEvent,
    StateChanged,
    TextDelta,
    ToolCallFinished,
)
from flowloom.testing import ScriptedModel, call
from runner.situations import Gate, Gated, nothing_left


def look(tool_context: ToolContext) -> dict[str, bool]:
    """Look."""
    tool_context.state["looked"] = True
    return {"seen": True}


async def shown(chat: Chat, message: Any = "go", **options: Any) -> list[RunStreamEvent]:
    """All typed events of a turn, which begins and ends once."""
    stream = chat.runner.run_stream(user_id="ann", session_id="s1", new_message=message, **options)
    events = [event async for event in stream]
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert [type(event) for event in events].count(RunStarted) == 1
    assert [type(event) for event in events].count(RunFinished) == 1
    nothing_left()
    return events


def end(events: list[RunStreamEvent]) -> tuple[str, str | None]:
    """Status and error code of the end."""
    last = events[-1]
    assert isinstance(last, RunFinished)
    return last.status, last.error_code


async def test_it_streams_unless_it_is_told_otherwise() -> None:
    root = LlmAgent(name="root", model=ScriptedModel(["a long answer in pieces"], stream_chunks=True))
    events = await shown(Chat(root))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == "a long answer in pieces"
    root = LlmAgent(name="root", model=ScriptedModel(["a long answer in pieces"], stream_chunks=True))
    deltas = [e.text for e in await shown(Chat(root), run_config=RunConfig()) if isinstance(e, TextDelta)]
    assert deltas == ["a long answer in pieces"]


async def test_a_run_that_ends_well() -> None:
    events = await shown(Chat(agent("root", call("look"), "done", tools=[look])))
    assert end(events) == ("final", None)
    assert [event.delta for event in events if isinstance(event, StateChanged)] == [{"looked": True}]
    assert [event.result for event in events if isinstance(event, ToolCallFinished)] == [{"seen": True}]


async def test_a_run_that_fails_ends_as_failed_and_does_not_raise() -> None:
    for root in (
        agent("root", RuntimeError("no")),
        agent("root", call("look"), RuntimeError("no"), tools=[look]),
        SequentialAgent(name="row", sub_agents=[agent("a", "a"), agent("b", RuntimeError("no"))]),
        ParallelAgent(name="side", sub_agents=[agent("a", "a"), agent("b", RuntimeError("no"))]),
    ):
        events = await shown(Chat(root))
        assert end(events) == ("failed", "RuntimeError")
        assert [event.error_message for event in events if isinstance(event, RunFailed)] == ["no"]


async def test_an_error_before_the_first_event_is_told_too() -> None:
    runner: Any = Runner(app_name="app", agent=agent("root"), session_service=InMemorySessionService())
    events = await shown(Chat(runner=runner))
    assert end(events) == ("failed", "SessionNotFoundError")
    assert len([event for event in events if isinstance(event, RunFailed)]) == 1


async def test_a_message_that_cannot_be_taken_is_told_too() -> None:
    events = await shown(Chat(agent("root", "x")), types.Content(role="user", parts=[]))
    assert end(events) == ("failed", "InputValidationError")


async def test_a_busy_session_is_told_too() -> None:
    gate = Gate()
    runner = InMemoryRunner(LlmAgent(name="root", model=Gated("hi", gate=gate)), app_name="app", concurrency="reject")
    chat = Chat(runner=runner)
    run = runner.start(user_id="ann", session_id="s1", new_message="go")
    await gate.reached.wait()
    stream = runner.run_stream(user_id="ann", session_id="s1", new_message="too")
    assert end([event async for event in stream]) == ("failed", "SessionBusyError")
    gate.open.set()
    await run.result()
    assert len(await chat.stored()) == 2


async def test_an_invocation_that_is_not_there_is_told_too() -> None:
    chat = Chat(agent("root", "one"))
    await chat.say("go")
    assert end(await shown(chat, None, invocation_id="e-none")) == ("failed", "InvocationNotFoundError")


async def test_a_plugin_that_fails_is_told_too() -> None:
    class Fails(BasePlugin):
        async def before_run_callback(self, **_: Any) -> None:
            raise RuntimeError("no")

    assert end(await shown(Chat(agent("root", "x"), plugins=[Fails("fails")]))) == ("failed", "RuntimeError")


@pytest.mark.parametrize("on_limit", ["raise", "stop", "summarise"])
async def test_a_limit_of_the_run(on_limit: Any) -> None:
    root = agent("root", call("look"), "sum", tools=[look])
    config = RunConfig(limits=Limits(model_calls=1, on_limit=on_limit))
    events = await shown(Chat(root), run_config=config)
    status, code = end(events)
    assert status == "limit"
    assert (code or "").endswith("LimitExceededError") is (on_limit != "summarise")
    assert any(isinstance(event, TextDelta) for event in events) is (on_limit == "summarise")


@pytest.mark.parametrize("on_limit", ["stop", "summarise"])
async def test_a_limit_of_an_agent_does_not_end_the_stream(on_limit: Any) -> None:
    a = agent("a", call("look"), "sum", tools=[look], limits=Limits(model_calls=1, on_limit=on_limit))
    events = await shown(Chat(SequentialAgent(name="row", sub_agents=[a, agent("b", "b is done")])))
    assert end(events) == ("final", None)


async def test_a_run_that_waits() -> None:
    root = agent("root", call("look"), "done", tools=[FunctionTool(look, require_confirmation=True)])
    assert end(await shown(Chat(root))) == ("paused", None)
    root = agent("root", call("look"), "done", tools=[look])
    assert end(await shown(Chat(root), run_config=RunConfig(pause_on_tool_calls=True))) == ("paused", None)


async def test_a_branch_that_waits_while_another_one_ends_later() -> None:
    a = agent("a", call("look"), "done", tools=[FunctionTool(look, require_confirmation=True)])
    b = agent("b", call("look"), call("look"), "done", tools=[look])
    assert end(await shown(Chat(ParallelAgent(name="side", sub_agents=[a, b])))) == ("paused", None)


async def test_confirmed_in_the_process_it_is_one_run() -> None:
    root = agent("root", call("look"), "done", tools=[FunctionTool(look, require_confirmation=True)])
    events = await shown(Chat(runner=InMemoryRunner(root, app_name="app", confirm=lambda _: True)))
    assert end(events) == ("final", None)


async def test_workflows_and_transfers_are_one_run() -> None:
    for root in (
        agent("root", hand_to("helper"), sub_agents=[agent("helper", "helped")]),
        LoopAgent(name="loop", max_iterations=2, sub_agents=[agent("a", "one", "two")]),
        SequentialAgent(name="row", sub_agents=[agent("a", "a"), agent("b", "b")]),
        ParallelAgent(name="side", sub_agents=[agent("a", "a"), agent("b", "b")]),
    ):
        assert end(await shown(Chat(root))) == ("final", None)


async def test_leaving_early_ends_the_run() -> None:
    gate = Gate()
    root = LlmAgent(name="root", model=Gated("hi", gate=gate, midway=True))
    chat = Chat(root)
    stream = chat.runner.run_stream(user_id="ann", session_id="s1", new_message="go")
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
    nothing_left()
    gate.open.set()
    assert end(await shown(chat)) == ("final", None)


async def test_cancelling_the_reader_is_raised_and_ends_the_run() -> None:
    gate = Gate()
    chat = Chat(LlmAgent(name="root", model=Gated("hi", gate=gate)))
    task = asyncio.create_task(shown(chat))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    nothing_left()


def test_without_an_event_loop() -> None:
    runner = InMemoryRunner(agent("root", "hi", RuntimeError("no")))
    for status in ("final", "failed"):
        events = list(runner.run_stream_sync(user_id="u", session_id="s", new_message="go"))
        assert end(events)[0] == status
