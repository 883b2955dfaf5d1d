"""Tools from elsewhere: what a turn with a call of an MCP tool costs more than one with a function.

The measure is the MCP SDK's own bare call over the same kind of pipe to the SDK's own server, without an agent: `python
-m benchmarks.elsewhere` prints all three, in milliseconds of processor time, and the ratio, which is to be at most 1.5;
with `--peers` google-adk's beside.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.elsewhere_rounds import Costs, add, command, measured
from benchmarks.engines import ADK_WITH_MCP, FLOWLOOM, ROOT, Installed, install_all
from benchmarks.results import Row
from benchmarks.rounds import Plan, cell_of
from flowloom import InMemoryRunner, LlmAgent, McpToolset
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.testing import ScriptedModel, call

TITLE = "tools from elsewhere: an MCP call in a turn, less a function"
AIM = 1.5
"""How many of the SDK's bare calls a call may cost in a turn."""
ROUNDS, EACH = 15, 20


def turns(tool: Any, count: int) -> tuple[InMemoryRunner, Callable[[int], Awaitable[None]]]:
    """A runner, and a turn of a session of its own with one call."""
    answers: list[Any] = [answer for _ in range(count) for answer in (call("add", a=1, b=2), "3")]
    runner = InMemoryRunner(LlmAgent(name="root", model=ScriptedModel(answers), tools=[tool]), app_name="app")

    async def turn(number: int) -> None:
        async for _ in runner.run_async(user_id="u", session_id=f"s{number}", new_message="go"):
            pass

    return runner, turn


async def own_costs(rounds: int = ROUNDS, each: int = EACH) -> list[Costs]:
    """The costs of each round on flowloom."""
    count = (rounds + 1) * each
    toolset = McpToolset(connection_params=StdioConnectionParams(command(), timeout=60))
    plain, function_turn = turns(add, count)
    remote, mcp_turn = turns(toolset, count)
    async with plain, remote:
        return await measured(function_turn, mcp_turn, rounds, each)


def adk_costs(adk: Installed, rounds: int = ROUNDS, each: int = EACH) -> list[Costs]:
    """The costs of each round on google-adk, in its environment. Raises `subprocess.CalledProcessError`."""
    asked = [adk.python, "-m", f"benchmarks.{adk.spec.module}", str(rounds), str(each)]
    ran = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    return [Costs(*each) for each in json.loads(ran.stdout)]


def run_elsewhere(plan: Plan, *, peers: bool, notes: list[str]) -> Row:
    """The line of the table; with `peers`, google-adk is beside it."""
    rounds = min(plan.rounds, ROUNDS)
    row = Row(TITLE, "× the SDK's bare call", AIM)
    row.cells[FLOWLOOM.name] = cell_of([each.ratio for each in asyncio.run(own_costs(rounds))])
    installed, missing = install_all((ADK_WITH_MCP,)) if peers else ([], [])
    notes += missing
    for adk in installed:
        try:
            row.cells[adk.name] = cell_of([each.ratio for each in adk_costs(adk, rounds)])
        except subprocess.CalledProcessError as error:
            notes.append(f"{adk.name}, {TITLE}: {error.stderr[-300:]}")
    return row


def told(name: str, rounds: list[Costs]) -> str:
    """The section of the report about an engine: the least of all rounds."""
    least = Costs(*map(min, zip(*rounds, strict=True)))
    return (
        f"## Tools from elsewhere: {name}\n\n"
        "| | ms of processor time |\n|---|---:|\n"
        f"| the MCP SDK's bare call over stdio | {least.bare:.2f} |\n"
        f"| a turn with a call of a function | {least.function:.2f} |\n"
        f"| a turn with a call of an MCP tool | {least.mcp:.2f} |\n\n"
        f"The call costs {least.ratio:.2f} bare calls; the aim is {AIM}.\n"
    )


if __name__ == "__main__":
    print(told("flowloom", asyncio.run(own_costs())))
    if "--peers" in sys.argv:
        for peer in install_all((ADK_WITH_MCP,))[0]:
            print(told(peer.name, adk_costs(peer)))
