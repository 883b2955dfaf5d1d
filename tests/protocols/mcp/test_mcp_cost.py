"""What a call of a server costs beside the SDK's own, in steps of the interpreter, which other work does not change."""

from __future__ import annotations

from typing import Any

from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from protocols.interpreter_steps import TURNS, steps

from benchmarks.elsewhere import turns
from benchmarks.elsewhere_rounds import BARE_SERVER, add, command
from flowloom import McpToolset
from flowloom.protocols.mcp import StdioConnectionParams, to_mcp_server

MOST = 1.25
"""How many bare calls of the SDK a call may cost in a turn; by the time of the processor it may be 1.5."""


async def test_a_call_in_a_turn_costs_little_more_than_the_sdks_own() -> None:
    """A turn with an MCP call, less the same turn with a function, beside a bare call of the SDK's client, where it is
    cheapest: of a server of the older era."""
    toolset = McpToolset(connection_params=StdioConnectionParams(command(BARE_SERVER), timeout=60))
    plain, function_turn = turns(add, 2 * TURNS)
    remote, mcp_turn = turns(toolset, 2 * TURNS)
    async with Client(StdioServerParameters(**command(BARE_SERVER))) as client, plain, remote:
        await client.list_tools()

        async def bare(_: int) -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        cost = await steps(mcp_turn) - await steps(function_turn)
        assert cost <= MOST * await steps(bare)


async def test_a_served_call_costs_a_run_and_little_more() -> None:
    """A call of a function that we serve, beside the same one that the SDK's server calls as it is."""
    bare_server: MCPServer[Any] = MCPServer("bare")

    @bare_server.tool()
    def double(number: int) -> dict[str, int]:
        """Double a number."""
        return {"result": 2 * number}

    costs: list[float] = []
    for server in (bare_server, to_mcp_server(tools=[double], name="ours")):
        async with Client(server) as client:
            await client.list_tools()

            async def once(_: int, client: Client = client) -> Any:
                return await client.call_tool("double", {"number": 2})

            costs.append(await steps(once))
    assert costs[1] <= 2.5 * costs[0]
