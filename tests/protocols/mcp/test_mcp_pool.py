"""How long connections are kept, and when a server that failed is tried again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from http_servers import served
from kit import Chat
from mcp_kit import Raw, asks, is_alive

from flowloom import McpToolset
from flowloom.errors import ToolsetError
from flowloom.protocols.mcp import StreamableHTTPConnectionParams, pool
from flowloom.testing import call


async def until_idle(toolset: McpToolset) -> None:
    async with asyncio.timeout(60):
        while toolset.status().state != "idle":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_an_idle_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process ends, nothing is known of the identity any more, and the next use opens another: no break."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.1)
    raw = Raw(tmp_path)
    toolset = raw.toolset()
    chat = Chat(asks(toolset, call("echo", text="a"), "ok", call("echo", text="b"), "ok"))
    await chat.say("go")
    await until_idle(toolset)
    async with asyncio.timeout(60):
        while is_alive(raw.pids[0]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert toolset.pool.entries() == []
    monkeypatch.setattr(pool, "IDLE_SECONDS", 900.0)
    before = len(raw.pids)
    events = await chat.say("again")
    assert events[1].get_function_responses()[0].response == {"result": '{"text": "b"}'}
    assert len(raw.pids) == before + 1
    assert toolset.status().reconnects == 0
    await chat.runner.close()


async def test_a_connection_at_work_is_not_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its call takes."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.1)
    raw = Raw(tmp_path)
    toolset = raw.toolset(timeout=20)
    events = await Chat(asks(toolset, call("slow", seconds=0.6), "ok")).say("go")
    assert events[1].get_function_responses()[0].response == {"result": "done"}
    methods = [each["got"].get("method") for each in raw.noted() if "got" in each]
    assert methods[-1] == "tools/call"  # nobody has connected anew since
    await toolset.close()


async def test_an_idle_session_is_ended_at_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """By DELETE, each user's own."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.1)
    with served() as http:
        params = StreamableHTTPConnectionParams(http.url)
        toolset = McpToolset(connection_params=params, header_provider=lambda context: {"X-User": context.session.id})
        for user in ("ann", "bob"):
            await Chat(asks(toolset, "ok"), session_id=user).say("go")
        await until_idle(toolset)
        async with asyncio.timeout(60):
            while [each["verb"] for each in http.requests].count("DELETE") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await toolset.close()


def test_pauses_between_failures_double_up_to_five_seconds() -> None:
    """From a tenth of a second on."""
    assert [round(pool.pause_after(failures), 1) for failures in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert pool.pause_after(10_000) == 5.0


async def test_a_server_that_failed_is_not_tried_at_once(tmp_path: Path) -> None:
    """The pauses are kept, however soon it is wanted again; a success ends them."""
    raw = Raw(tmp_path, exit_at_start=3)
    toolset = raw.toolset()
    for _ in range(3):
        with pytest.raises(ToolsetError):
            await toolset.get_tools()
    starts = [each["at"] for each in raw.noted() if each.get("started")]
    assert starts[1] - starts[0] >= 0.1
    assert starts[2] - starts[1] >= 0.2
    await toolset.close()
    with served(status=500) as http:
        toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(http.url))
        for _ in range(2):
            with pytest.raises(ToolsetError):
                await toolset.get_tools()
        http.told["status"] = None
        assert [tool.name for tool in await toolset.get_tools()] == ["who"]
        assert toolset.pool.entry({}).failures == 0
        await toolset.close()
