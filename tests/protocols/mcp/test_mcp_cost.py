"""What a call of a server costs beside the SDK's own, in steps of the interpreter, which other work does not change."""

from __future__ import annotations

from typing import Any

from mcp import Client, StdioServerParameters
from protocols.interpreter_steps import TURNS, steps

from benchmarks.elsewhere import AIM, add, command, turns
from flowloom import McpToolset
from flowloom.protocols.mcp import StdioConnectionParams


async def test_a_call_in_a_turn_costs_little_more_than_the_sdks_own() -> None:
    """A turn with an MCP call, less the same turn with a function, beside a bare call of the SDK's client."""
    toolset = McpToolset(connection_params=StdioConnectionParams(command(), timeout=60))
    plain, function_turn = turns(add, 2 * TURNS)
    remote, mcp_turn = turns(toolset, 2 * TURNS)
    async with Client(StdioServerParameters(**command())) as client, plain, remote:
        await client.list_tools()

        async def bare(_: int) -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        cost = await steps(mcp_turn) - await steps(function_turn)
        assert cost <= AIM * await steps(bare)
