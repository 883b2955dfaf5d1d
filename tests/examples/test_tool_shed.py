"""The tool shed: an agent and its tools, as an MCP client meets them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import ElicitResult

from flowloom.cli.loading import load_app
from flowloom.protocols.mcp import to_mcp_server

ROOT = Path(__file__).resolve().parents[2]


def shed(*decisions: bool) -> Client:
    """A client whose person decides so, in turn."""
    decided = iter(decisions)

    async def person(context: Any, question: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"confirmed": next(decided)})

    agent = load_app(ROOT / "examples" / "tool_shed").agent
    return Client(to_mcp_server(agent, expose="both"), elicitation_callback=person)


async def test_a_tool_is_lent_once_a_person_has_approved_it() -> None:
    """A connection remembers what it was lent; what is refused, or not there, is an error."""
    async with shed(True, False, True, True) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["warden", "list_shed", "borrow"]
        lent = await client.call_tool("borrow", {"tool": "ladder"})
        assert lent.structured_content == {"lent": ["ladder"]}
        refused = await client.call_tool("borrow", {"tool": "saw"})
        assert refused.is_error
        assert "rejected" in refused.content[0].text
        gone = await client.call_tool("borrow", {"tool": "ladder"})
        assert gone.is_error
        assert "no ladder" in gone.content[0].text
        left = await client.call_tool("list_shed", {})
        assert left.structured_content == {"hammer": 3, "ladder": 0, "saw": 2}


def test_the_client_borrows_over_a_pipe() -> None:
    """One command starts both; the person answers on the terminal."""
    command = [sys.executable, "-m", "examples.tool_shed", "saw"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, input="y\n")
    assert "Approve the call of `borrow`?" in done.stdout, done.stdout + done.stderr
    assert 'borrow -> {"lent": ["saw"]}' in done.stdout
    assert 'list_shed -> {"hammer": 3, "ladder": 1, "saw": 1}' in done.stdout
    assert "warden -> [offline]" in done.stdout
