"""A tool tells how far it is while it runs."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from typing import Any

from kit import Chat, agent, user

from flowloom import AgentTool, Event, ToolContext
from flowloom.run_stream import ToolCallFinished, ToolCallProgress, run_stream_of
from flowloom.testing import call


async def copy_files(count: int, tool_context: ToolContext) -> str:
    """Copy some files."""
    for number in range(count):
        tool_context.report_progress(number + 1, count, f"file {number + 1}")
        await asyncio.sleep(0)
    return "done"


async def test_progress_comes_while_the_call_runs_and_is_not_stored() -> None:
    """Each report is in the run stream before the result; neither the log nor the model sees it."""
    chat = Chat(agent("root", call("copy_files", count=2), "ok", tools=[copy_files]))
    events = await chat.say("copy")
    told = [each for each in run_stream_of(events) if isinstance(each, ToolCallProgress | ToolCallFinished)]
    assert [getattr(each, "result", None) for each in told] == [
        {"progress": 1, "total": 2, "message": "file 1"},
        {"progress": 2, "total": 2, "message": "file 2"},
        {"result": "done"},
    ]
    assert len({each.call_id for each in told}) == 1
    assert not [each for each in await chat.stored() if each.partial]


async def test_progress_is_told_beside_calls_that_tell_none() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    calls = [call("copy_files", count=1), call("look")]
    events = await Chat(agent("root", calls, "ok", tools=[copy_files, look])).say("copy")
    assert len([each for each in run_stream_of(events) if isinstance(each, ToolCallProgress)]) == 1


async def test_progress_of_an_agent_behind_a_tool_is_its_own_affair() -> None:
    """The caller's stream shows it only if it shows that agent's events."""
    inner = agent("inner", call("copy_files", count=1), "copied", tools=[copy_files])
    events = await Chat(agent("root", call("inner", request="x"), "ok", tools=[AgentTool(inner)])).say("copy")
    assert not [each for each in run_stream_of(events) if isinstance(each, ToolCallProgress)]


async def test_a_broken_report_breaks_nothing() -> None:
    """What carries the mark and is no report is passed over."""
    events = await Chat(agent("root", call("copy_files", count=1), "ok", tools=[copy_files])).say("copy")
    for event in events:
        if event.partial:
            event.custom_metadata = {"tool_progress": "much"}
    assert not [each for each in run_stream_of(events) if isinstance(each, ToolCallProgress)]


async def many(count: int, tool_context: ToolContext) -> str:
    """Tell very often, and wait for nothing."""
    for number in range(count):
        tool_context.report_progress(number, count)
    return "done"


async def test_what_is_not_read_yet_is_replaced_by_what_comes_next() -> None:
    """However often a call tells, one report of it waits at most; the last one always comes."""
    count = 20_000
    tracemalloc.start()
    try:
        chat = Chat(agent("root", [call("many", count=count), call("many", count=5)], "ok", tools=[many]))
        events = await chat.say("go")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    told = [each for each in run_stream_of(events) if isinstance(each, ToolCallProgress)]
    assert sorted(each.result["progress"] for each in told) == [4, count - 1]
    assert most < 4_000_000


async def test_a_slow_reader_sees_the_latest_report() -> None:
    """Reports that come while an event is being read are one."""
    events: list[Event] = []
    runner = Chat(agent("root", call("copy_files", count=50), "ok", tools=[copy_files])).runner
    async for event in runner.run_async(user_id="ann", session_id="s1", new_message=user("go")):
        events.append(event)
        for _ in range(20 if event.partial else 0):
            await asyncio.sleep(0)
    seen = [each.result["progress"] for each in run_stream_of(events) if isinstance(each, ToolCallProgress)]
    assert seen == sorted(set(seen))
    assert seen[-1] == 50
    assert len(seen) < 20
    await runner.close()


async def test_a_function_that_blocks_tells_while_it_runs() -> None:
    """It runs in a thread, and its reports come as it makes them."""
    heard = threading.Event()

    def waits(tool_context: ToolContext) -> str:
        """Wait until each of two reports was seen."""
        seen = True
        for number in (1, 2):
            heard.clear()
            tool_context.report_progress(number)
            seen = heard.wait(2) and seen
        for number in range(1000):
            tool_context.report_progress(number)
        return "seen" if seen else "not seen"

    runner = Chat(agent("root", call("waits"), "ok", tools=[waits])).runner
    told: list[Any] = []
    async with runner.start(user_id="user", session_id="session", new_message="go") as handle:
        async for event in handle.stream():
            if isinstance(event, ToolCallProgress | ToolCallFinished):
                told.append(event.result)
                heard.set()
    await runner.close()
    assert told[:2] == [{"progress": 1}, {"progress": 2}]
    assert told[-2:] == [{"progress": 999}, {"result": "seen"}]
