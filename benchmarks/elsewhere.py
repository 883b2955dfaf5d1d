"""Tools from elsewhere: what a turn with a call of an MCP tool costs more than one with a function.

The measure is the MCP SDK's own bare call over the same kind of pipe, without an agent: `python -m
benchmarks.elsewhere` prints all three, in milliseconds, and the ratio, which is to be at most 1.5.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.results import Row
from benchmarks.rounds import Plan, cell_of
from flowloom import InMemoryRunner, LlmAgent, McpToolset
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.testing import ScriptedModel, call

TITLE = "tools from elsewhere: an MCP call in a turn, less a function"
SERVER = Path(__file__).with_name("elsewhere_server.py")
AIM = 1.5
"""How many of the SDK's bare calls a call may cost in a turn."""


class Costs(NamedTuple):
    """Milliseconds, each the median of a round."""

    bare: float
    function: float
    mcp: float

    @property
    def ratio(self) -> float:
        """What the call costs in a turn, in bare calls."""
        return (self.mcp - self.function) / self.bare


def command() -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", str(SERVER)]}


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def turns(tool: Any, name: str, count: int) -> tuple[InMemoryRunner, Callable[[int], Awaitable[None]]]:
    """A runner, and a turn of a session of its own with one call."""
    answers: list[Any] = [answer for _ in range(count) for answer in (call(name, a=1, b=2), "3")]
    runner = InMemoryRunner(LlmAgent(name="root", model=ScriptedModel(answers), tools=[tool]), app_name="app")

    async def turn(number: int) -> None:
        async for _ in runner.run_async(user_id="u", session_id=f"s{number}", new_message="go"):
            pass

    return runner, turn


async def timed(work: Callable[[int], Awaitable[Any]], numbers: range) -> list[float]:
    found: list[float] = []
    for number in numbers:
        began = time.perf_counter()
        await work(number)
        found.append((time.perf_counter() - began) * 1000)
    return found


async def measured(rounds: int = 15, each: int = 20) -> list[Costs]:
    """The three costs of each round, taken in turns so that other work on the machine falls on all."""
    from mcp import Client, StdioServerParameters

    count = (rounds + 1) * each
    toolset = McpToolset(connection_params=StdioConnectionParams(command(), timeout=60))
    plain, function_turn = turns(add, "add", count)
    remote, mcp_turn = turns(toolset, "add", count)
    found: list[Costs] = []
    async with Client(StdioServerParameters(**command())) as client, plain, remote:
        await client.list_tools()

        async def bare(_: int) -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        for number in range(rounds + 1):
            numbers = range(number * each, (number + 1) * each)
            taken = [statistics.median(await timed(work, numbers)) for work in (bare, function_turn, mcp_turn)]
            if number:  # the first round warms up
                found.append(Costs(*taken))
    return found


def run_elsewhere(plan: Plan) -> Row:
    """The line of the table."""
    costs = asyncio.run(measured(min(plan.rounds, 15)))
    cell = cell_of([each.ratio for each in costs])
    return Row(TITLE, "× the SDK's bare call", AIM, {"flowloom": cell})


def told(rounds: list[Costs]) -> str:
    """The section of the report."""
    bare, function, mcp, ratio = (
        statistics.median(getattr(each, name) for each in rounds) for name in ("bare", "function", "mcp", "ratio")
    )
    return (
        "## Tools from elsewhere\n\n"
        "| | ms |\n|---|---:|\n"
        f"| the MCP SDK's bare call over stdio | {bare:.2f} |\n"
        f"| a turn with a call of a function | {function:.2f} |\n"
        f"| a turn with a call of an MCP tool | {mcp:.2f} |\n\n"
        f"The call costs {ratio:.2f} bare calls; the aim is {AIM}.\n"
    )


if __name__ == "__main__":
    print(told(asyncio.run(measured())))
