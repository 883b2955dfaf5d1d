"""Servers that crash, babble, hang or are not there: errors that say so, and a next call that works."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kit import Chat
from mcp_kit import Raw, asks, is_alive, pass_time, result_of, results_of

from flowloom import McpToolset
from flowloom.errors import ToolsetError
from flowloom.protocols.mcp import StdioConnectionParams, StreamableHTTPConnectionParams
from flowloom.testing import call


async def test_a_crash_is_an_error_within_a_second_and_the_next_call_works(tmp_path: Path) -> None:
    """The crashed call was sent once, with the server's last words in the error; a new process takes the next."""
    raw = Raw(tmp_path)
    toolset = raw.toolset(timeout=300)
    chat = Chat(asks(toolset, call("crash"), call("echo", text="x"), "ok"))
    began = time.monotonic()
    events = await chat.say("go")
    crash, echo = (each.response for event in events for each in event.get_function_responses())
    assert time.monotonic() - began < 60  # two processes were started, perhaps on a busy machine
    assert "ended its output" in crash["error"]  # type: ignore[index]
    assert "about to crash: out of cheese" in crash["error"]  # type: ignore[index]
    assert echo == {"result": '{"text": "x"}'}
    assert [each["params"]["name"] for each in raw.received("tools/call")] == ["crash", "echo"]
    assert len(raw.pids) == 2
    assert toolset.status().reconnects == 1
    await chat.runner.close()
    assert not any(map(is_alive, raw.pids))


async def test_a_server_that_begins_slowly_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the question for its protocol when it has begun, and refuses the handshake of the older era then."""
    monkeypatch.setattr("flowloom.protocols.mcp.connection.PROBE_SHARE", 0.001)
    server = Path(__file__).parents[3] / "examples" / "tool_server" / "museum.py"
    params = StdioConnectionParams({"command": sys.executable, "args": [str(server)]}, timeout=30)
    toolset = McpToolset(connection_params=params)
    assert [tool.name for tool in await toolset.get_tools()]
    await toolset.close()


async def test_siblings_of_a_crash_keep_their_results(tmp_path: Path) -> None:
    """What was answered before is kept, and what was open fails at once and not at its timeout."""
    raw = Raw(tmp_path)

    async def local() -> str:
        return "kept"

    agent = asks(raw.toolset(timeout=300), [call("slow"), call("local"), call("crash")], "ok")
    agent = agent.clone(update={"tools": [*agent.tools, local]})
    chat = Chat(agent)
    began = time.monotonic()
    slow, kept, crash = (each.response for each in (await chat.say("go"))[1].get_function_responses())
    assert time.monotonic() - began < 60
    assert kept == {"result": "kept"}
    assert "error" in slow  # type: ignore[operator]
    assert "error" in crash  # type: ignore[operator]
    await chat.runner.close()


async def results_too_late(raw: Raw, name: str, *, echoes: bool = True) -> list[Any]:
    """What a call gives whose time passes, and one beside it that is answered before, unless it is lost too."""
    echoed = asyncio.Event()

    def note(tool: Any, **_: Any) -> None:
        if tool.name == "echo":
            echoed.set()

    calls = [call(name), call("echo", text="x")]
    chat = Chat(asks(raw.toolset(timeout=60), calls, "ok", after_tool_callback=note))
    running = asyncio.create_task(chat.say("go"))
    await raw.until("tools/call", 2)
    if echoes:
        await echoed.wait()
    await pass_time(60)
    events = await running
    await chat.runner.close()
    return [each.response for event in events for each in event.get_function_responses()]


@pytest.mark.parametrize("name", ["garbage", "half", "wrong_id", "no_content", "stderr"])
async def test_a_server_that_babbles_hangs_nothing(tmp_path: Path, name: str) -> None:
    """Garbage, half answers, wrong ids and 2 MB of stderr: an error or the result, and the next call works."""
    raw = Raw(tmp_path, banner="Welcome to the server! \x1b[31m")
    if name in ("half", "wrong_id"):
        first, second = await results_too_late(raw, name, echoes=name != "half")
    else:
        first, second = await results_of(raw.toolset(), call(name), call("echo", text="x"))
    assert ("error" in first) == (name in ("half", "wrong_id", "no_content"))
    if name != "half":  # which swallows the beginning of the next line
        assert second == {"result": '{"text": "x"}'}


@pytest.mark.parametrize(
    ("params", "told"),
    [
        (StdioConnectionParams({"command": "no-such-command-at-all"}), "there is no command `no-such-command-at-all`"),
        (StdioConnectionParams({"command": "false"}), "the process ended its output"),
        (StreamableHTTPConnectionParams("http://127.0.0.1:9/mcp?key=12345678"), "no connection could be made"),
    ],
)
async def test_a_server_that_is_not_there_is_an_error_with_the_reason(params: Any, told: str) -> None:
    """It names the server, without the query."""
    chat = Chat(asks(McpToolset(connection_params=params), "ok"))
    with pytest.raises(ToolsetError) as caught:
        await chat.say("go")
    assert told in str(caught.value)
    assert params.address in str(caught.value)
    assert "12345678" not in str(caught.value)
    await chat.runner.close()


async def test_a_server_that_never_answers_is_an_error_within_the_timeout(tmp_path: Path) -> None:
    """Its process is ended."""
    raw = Raw(tmp_path, silent=True, stderr="waiting for the moon")
    chat = Chat(asks(raw.toolset(timeout=60), "ok"))
    running = asyncio.create_task(chat.say("go"))
    await raw.until("server/discover", 1)
    await pass_time(60)
    with pytest.raises(ToolsetError, match=r"(?s)within 60 seconds.*waiting for the moon"):
        await running
    await chat.runner.close()
    assert not any(map(is_alive, raw.pids))


async def test_a_listing_that_fails_is_an_error(tmp_path: Path) -> None:
    """The server's reason is told, and so it is when the run goes on without the tools."""
    raw = Raw(tmp_path, listing_error="database is down")
    with pytest.raises(ToolsetError, match="database is down"):
        await Chat(asks(toolset := raw.toolset(), "ok")).say("go")
    assert toolset.status().state == "connected"
    assert "database is down" in (toolset.status().last_error or "")
    await toolset.close()
    chat = Chat(asks(raw.toolset(on_unavailable="skip"), "ok"))
    events = await chat.say("go")
    assert [event.error_code for event in events] == ["TOOLSET_UNAVAILABLE", None]
    await chat.runner.close()


async def test_a_timeout_reaches_the_server(tmp_path: Path) -> None:
    """The call's slot is freed, the connection stays, and the error says how long was waited."""
    raw = Raw(tmp_path)
    slow, echo = await results_too_late(raw, "slow")
    assert slow == {"error": "Tool `slow` gave no result within 60 seconds."}
    assert echo == {"result": '{"text": "x"}'}
    (cancelled,) = raw.received("notifications/cancelled")
    (called,) = (each["id"] for each in raw.received("tools/call") if each["params"]["name"] == "slow")
    assert cancelled["params"]["requestId"] == called
    assert len(raw.pids) == 1


async def test_a_cancelled_run_reaches_the_server(tmp_path: Path) -> None:
    """Calls of other runs are not touched."""
    raw = Raw(tmp_path)
    toolset = raw.toolset(timeout=20)
    first = Chat(asks(toolset, call("slow"), "ok"))
    other = Chat(asks(toolset, call("slow", seconds=1), "ok"))
    running, beside = asyncio.create_task(first.say("go")), asyncio.create_task(other.say("go"))
    await raw.until("tools/call", 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await beside)[1].get_function_responses()[0].response == {"result": "done"}
    assert len(raw.received("notifications/cancelled")) == 1
    await toolset.close()


async def test_ten_first_uses_open_one_process(tmp_path: Path) -> None:
    """They wait for the same connection, and listing."""
    raw = Raw(tmp_path, list_changed=True)
    toolset = raw.toolset()
    await asyncio.gather(*(Chat(asks(toolset, "ok"), session_id=f"s{number}").say("go") for number in range(10)))
    assert len(raw.pids) == 1
    assert len(raw.received("tools/list")) == 1
    await toolset.close()


async def test_five_calls_at_once_go_over_one_session(tmp_path: Path) -> None:
    """None waits for another."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(), [call("slow") for _ in range(5)], "ok"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(chat.say("go"))
        await raw.until("tools/call", 5)  # long before the first one is answered
        running.cancel()
    await chat.runner.close()
    assert len(raw.pids) == 1


def test_a_toolset_works_in_two_event_loops(tmp_path: Path) -> None:
    """One after the other, without and with closing; nothing is left."""
    raw = Raw(tmp_path)
    toolset = raw.toolset()

    async def once(close: bool) -> Any:
        events = await Chat(asks(toolset, call("echo", text="x"), "ok")).say("go")
        if close:
            await toolset.close()
        return events[1].get_function_responses()[0].response

    for close in (False, True, True):
        assert asyncio.run(once(close)) == {"result": '{"text": "x"}'}
    assert len(raw.pids) == 3
    assert not any(map(is_alive, raw.pids))


async def test_nothing_is_left_after_close(tmp_path: Path) -> None:
    """No process, task or thread; closing twice, and from another task, is quiet."""
    before = {*threading.enumerate()}
    raw = Raw(tmp_path)
    toolset = raw.toolset()
    await result_of(toolset, "echo", text="x")
    await toolset.close()
    await asyncio.create_task(toolset.close())
    assert not any(map(is_alive, raw.pids))
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert [thread.name for thread in {*threading.enumerate()} - before if "flowloom" in thread.name] == []


async def test_a_server_that_lingers_is_ended(tmp_path: Path) -> None:
    """The end of its input, then SIGTERM: two seconds each."""
    raw = Raw(tmp_path, linger=60)
    began = time.monotonic()
    await result_of(raw.toolset(), "echo", text="x")
    assert time.monotonic() - began < 50
    assert not any(map(is_alive, raw.pids))


async def test_a_server_inherits_few_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are given come besides."""
    monkeypatch.setenv("SECRET_OF_THE_PROGRAM", "do not tell")
    raw = Raw(tmp_path)
    await result_of(raw.toolset(env={"GIVEN": "yes"}), "echo", text="x")
    environment = raw.noted()[0]["env"]
    assert environment["GIVEN"] == "yes"
    assert "SECRET_OF_THE_PROGRAM" not in environment
