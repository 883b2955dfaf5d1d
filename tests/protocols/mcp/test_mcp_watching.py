"""Resources that change after the model has read them: the next step tells so."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from kit import Chat
from mcp_kit import Raw, asks

from flowloom import McpToolset
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.testing import call

NOTES = "file:///notes.txt"
MODERN = """
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("notes")

@server.resource("file:///notes.txt", name="notes")
def notes() -> str:
    return "notes"

@server.resource("file:///more.txt", name="more")
def more() -> str:
    return "more"

@server.tool()
async def update(uri: str, ctx: Context) -> str:
    await ctx.notify_resource_updated(uri)
    return "updated"

server.run()
"""
LOAD = call("load_mcp_resource", resource_names=["notes"])


def told(chat: Chat) -> list[bool]:
    """Of each step, whether the model was told that the notes have changed."""
    model: Any = chat.runner.agent.model  # type: ignore[union-attr]
    words = "have changed since they were read: `notes`"
    return [words in str(request.config.system_instruction) for request in model.requests]


def chat_with(raw: Raw, *answers: Any) -> Chat:
    return Chat(asks(raw.toolset(use_mcp_resources=True), *answers))


def update(uri: str = NOTES) -> Any:
    return call("update", uri=uri)


@pytest.mark.parametrize("uri", [NOTES, f"{NOTES}/part"])
async def test_a_resource_that_has_changed_is_told_of_in_the_next_step(tmp_path: Path, uri: str) -> None:
    """Until it is read again; the server is asked once to tell, before the first reading, and the list is kept."""
    raw = Raw(tmp_path, resources={"subscribe": True, "listChanged": True})
    chat = chat_with(raw, LOAD, update(uri), LOAD, "ok", "later")
    await chat.say("go")
    await chat.say("more")
    assert told(chat) == [False, False, True, False, False]
    methods = [each["got"]["method"] for each in raw.noted() if "got" in each]
    assert [each for each in methods if each in ("resources/subscribe", "resources/read")] == [
        "resources/subscribe",
        "resources/read",
        "resources/read",
    ]
    assert methods.count("resources/list") == 1
    await chat.runner.close()


async def test_a_change_of_what_was_not_read_says_nothing(tmp_path: Path) -> None:
    """Nor does one of another resource, or in a session that has not read it."""
    raw = Raw(tmp_path, resources={"subscribe": True})
    chat = chat_with(raw, update(), LOAD, update("file:///other.txt"), update(), "ok", "ok")
    await chat.say("go")
    assert told(chat) == [False, False, False, False, True]
    await Chat(chat.runner.agent, runner=chat.runner, session_id="s2").say("go")
    assert told(chat)[-1] is False
    await chat.runner.close()


async def test_a_server_that_tells_of_no_changes_is_not_asked_to(tmp_path: Path) -> None:
    """It promises no subscriptions."""
    raw = Raw(tmp_path)
    chat = chat_with(raw, LOAD, "ok")
    await chat.say("go")
    assert raw.received("resources/subscribe") == []
    await chat.runner.close()


async def test_what_was_missed_while_there_was_no_connection_may_have_changed(tmp_path: Path) -> None:
    """The new connection is asked to tell from then on."""
    raw = Raw(tmp_path, resources={"subscribe": True})
    chat = chat_with(raw, LOAD, call("crash"), "ok", LOAD, "ok")
    await chat.say("go")
    await chat.say("more")
    assert told(chat) == [False, False, True, True, False]
    assert len(raw.received("resources/subscribe")) == 2
    await chat.runner.close()


async def test_a_server_of_the_newer_era_tells_of_changes_by_a_stream(tmp_path: Path) -> None:
    """One that grows with each resource that is read."""
    (tmp_path / "server.py").write_text(MODERN)
    params = StdioConnectionParams({"command": sys.executable, "args": [str(tmp_path / "server.py")]}, timeout=60)
    toolset = McpToolset(connection_params=params, use_mcp_resources=True)
    both = call("load_mcp_resource", resource_names=["notes", "more"])
    chat = Chat(asks(toolset, both, update(), LOAD, update("file:///more.txt"), "ok"))
    await chat.say("go")
    assert toolset.pool.era_is_modern
    assert told(chat) == [False, False, True, False, False]
    model: Any = chat.runner.agent.model  # type: ignore[union-attr]
    assert "since they were read: `more`" in str(model.requests[-1].config.system_instruction)
    await chat.runner.close()
