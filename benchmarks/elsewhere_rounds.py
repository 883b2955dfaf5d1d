"""What an MCP call costs in a turn, in bare calls of the SDK: the rounds, for any engine. It imports no engine."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

BARE_SERVER = Path(__file__).with_name("elsewhere_server.py")
SDK_SERVER = Path(__file__).with_name("elsewhere_sdk_server.py")
Work = Callable[[int], Awaitable[Any]]
"""Does something for the number of a turn."""


class Costs(NamedTuple):
    """Milliseconds of processor time of this process, each the least of a round: what other work of the machine adds,
    and what the server does, is in none of them."""

    bare: float
    function: float
    mcp: float

    @property
    def ratio(self) -> float:
        """What the call costs in a turn, in bare calls."""
        return (self.mcp - self.function) / self.bare


def command(server: Path = SDK_SERVER) -> dict[str, Any]:
    """How a server of one tool is started: the SDK's, or one of the standard library, which is there at once."""
    return {"command": sys.executable, "args": ["-I", str(server)]}


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


async def measured(function_turn: Work, mcp_turn: Work, rounds: int, each: int) -> list[Costs]:
    """The costs of each round, taken in turns so that other work on the machine falls on all."""
    from mcp import Client, StdioServerParameters

    found: list[Costs] = []
    async with Client(StdioServerParameters(**command())) as client:
        await client.list_tools()

        async def bare(_: int) -> Any:
            return await client.call_tool("add", {"a": 1, "b": 2})

        for number in range(rounds + 1):
            taken = [
                [await _timed(work, n) for work in (bare, function_turn, mcp_turn)]
                for n in range(number * each, (number + 1) * each)
            ]
            if number:  # the first round warms up
                found.append(Costs(*map(min, zip(*taken, strict=True))))
    return found


async def _timed(work: Work, number: int) -> float:
    began = time.process_time()
    await work(number)
    return (time.process_time() - began) * 1000
