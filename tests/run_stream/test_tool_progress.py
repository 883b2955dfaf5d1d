"""A tool tells how far it is while it runs."""

from __future__ import annotations

import asyncio

from kit import Chat, agent

from flowloom import AgentTool, ToolContext
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
