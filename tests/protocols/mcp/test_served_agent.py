"""An agent as a tool of an MCP server, as clients of both eras see it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from serving_kit import ERAS, counting, served, words

from flowloom import LlmAgent
from flowloom.errors import ConfigurationError
from flowloom.protocols.mcp import to_mcp_server
from flowloom.testing import ScriptedModel, call
from flowloom.tools import FunctionTool

PROGRAM = '''
from flowloom import LlmAgent
from flowloom.protocols.mcp import to_mcp_server
from flowloom.testing import ScriptedModel, call

def ring() -> str:
    """Ring."""
    print("ding")
    return "rung"

model = ScriptedModel([call("ring"), "Done.", "Again."])
to_mcp_server(LlmAgent(name="desk", description="Rings.", model=model, tools=[ring])).run()
'''


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_is_one_tool_over_http(mode: Any) -> None:
    """It is named as the agent, takes a `request`, and gives the answer."""
    async with served(counting()) as url, Client(url, mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("desk", {"request": "a"})
    assert (tool.name, tool.description, tool.input_schema["required"]) == ("desk", "Counts.", ["request"])
    assert (words(result), result.is_error) == ("1", False)


async def test_connections_are_conversations_apart() -> None:
    """The second call of a connection goes on where the first ended; another connection begins anew."""
    async with served(counting()) as url, Client(url, mode="legacy") as one, Client(url, mode="legacy") as two:
        told = [words(await client.call_tool("desk", {"request": "a"})) for client in (one, one, two)]
    assert told == ["1", "2", "1"]


@pytest.mark.parametrize("mode", ERAS)
async def test_prints_of_tools_stay_off_the_pipe(tmp_path: Path, mode: Any) -> None:
    """Over stdio what a tool prints goes to stderr, and the connection is one conversation."""
    program = tmp_path / "desk.py"
    program.write_text(PROGRAM)
    with (tmp_path / "errors").open("w+") as errors:
        here = str(Path(__file__).parents[3])
        parameters = StdioServerParameters(command=sys.executable, args=[str(program)], env={"PYTHONPATH": here})
        async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:
            told = [words(await client.call_tool("desk", {"request": "a"})) for _ in range(2)]
    assert told == ["Done.", "Again."]
    assert "ding" in (tmp_path / "errors").read_text()


async def test_what_waits_is_an_error_that_says_so() -> None:
    """A call that a person has to approve is never an empty answer."""

    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([call("pay"), "Done."])
    agent = LlmAgent(name="desk", model=model, tools=[FunctionTool(pay, require_confirmation=True)])
    async with served(agent) as url, Client(url) as client:
        result = await client.call_tool("desk", {"request": "a"})
    assert result.is_error
    assert "confirmation of `pay`" in words(result)


def test_an_open_address_needs_auth() -> None:
    """Others than this machine are served only if it is known who asks."""
    with pytest.raises(ConfigurationError, match="auth"):
        to_mcp_server(counting()).streamable_http_app(host="0.0.0.0")


async def test_a_cancelled_call_cancels_the_run() -> None:
    """The client's cancel reaches what the run is doing."""
    began, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "late"

    agent = LlmAgent(name="desk", model=ScriptedModel([call("wait"), "Done."]), tools=[wait])
    async with served(agent) as url, Client(url, mode="legacy") as client:
        asked = asyncio.create_task(client.call_tool("desk", {"request": "a"}))
        await began.wait()
        asked.cancel()
        await asyncio.wait_for(stopped.wait(), 60)


@pytest.mark.parametrize("mode", ERAS)
async def test_half_of_a_character_breaks_no_answer(mode: Any) -> None:
    """U+FFFD stands for it."""
    async with (
        served(LlmAgent(name="desk", model=ScriptedModel(["half \ud83d"]))) as url,
        Client(url, mode=mode) as client,
    ):
        assert words(await client.call_tool("desk", {"request": "Go"})) == "half \ufffd"
