"""Servers of the older transport, HTTP with server-sent events."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from kit import Chat
from mcp_kit import asks, result_of
from sse_server import Sse, sse_served

from flowloom import McpToolset
from flowloom.errors import ToolsetError
from flowloom.protocols.mcp import SseConnectionParams
from flowloom.testing import call


def toolset(sse: Sse, **fields: float) -> McpToolset:
    return McpToolset(connection_params=SseConnectionParams(sse.url, headers={"X-Key": "k-1234567890"}, **fields))


async def test_a_tool_is_called_over_events(caplog: pytest.LogCaptureFixture) -> None:
    """Requests go to the address that the stream names, with the headers; nothing is left, and the session is in no
    log."""
    caplog.set_level(logging.DEBUG)
    with sse_served() as sse:
        assert await result_of(toolset(sse), "echo", a=1) == {"result": '{"a": 1}'}
        assert {headers["x-key"] for _, headers, _ in sse.requests} == {"k-1234567890"}
        assert len(sse.received("initialize")) == 1
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert "secret-session" not in caplog.text
    assert "k-1234567890" not in caplog.text


async def test_a_stream_that_breaks_off_fails_its_calls_at_once_and_the_next_use_connects_again() -> None:
    """An error result and not the timeout; the call is not repeated, and the next one goes over a new stream."""
    with sse_served() as sse:
        tools = toolset(sse, timeout=300)
        chat = Chat(asks(tools, call("hang_up"), call("echo", a=2), "ok"))
        began = time.monotonic()
        events = await chat.say("go")
        broken, echoed = (each.response for event in events for each in event.get_function_responses())
        assert time.monotonic() - began < 60
        assert "the server ended its stream" in broken["error"]  # type: ignore[index]
        assert "not repeated" in broken["error"]  # type: ignore[index]
        assert echoed == {"result": '{"a": 2}'}
        assert [each["params"]["name"] for each in sse.received("tools/call")] == ["hang_up", "echo"]
        assert tools.status().reconnects == 1
        await chat.runner.close()


async def test_a_stream_that_broke_between_two_runs_is_opened_anew() -> None:
    """The run does not notice."""
    with sse_served() as sse:
        chat = Chat(asks(toolset(sse), call("echo", a=1), "ok", call("echo", a=2), "ok"))
        await chat.say("go")
        sse.break_off()
        events = await chat.say("again")
        assert events[1].get_function_responses()[0].response == {"result": '{"a": 2}'}
        assert len(sse.received("initialize")) == 2
        await chat.runner.close()


async def test_messages_go_to_no_other_host() -> None:
    """A stream that names another origin for them is an error, and nothing is sent there."""
    with sse_served(endpoint="http://127.0.0.2:9/messages") as sse:
        chat = Chat(asks(toolset(sse, timeout=1.0), "ok"))
        with pytest.raises(ToolsetError, match="is not available"):
            await chat.say("go")
        await chat.runner.close()
        assert [verb for verb, _, _ in sse.requests] == ["GET"]
