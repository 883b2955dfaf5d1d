"""Agents from elsewhere: what a turn of a remote agent costs, in bare calls of the A2A SDK's client.

`python -m benchmarks.remote_turns` prints both, in milliseconds of this process's own time; the agent is served by
another process.
"""

from __future__ import annotations

import asyncio
import statistics
import sys

import httpx
import uvicorn

from benchmarks.beside import in_turns, served_by
from benchmarks.results import Row
from benchmarks.rounds import Plan, cell_of
from flowloom import InMemoryRunner, LlmAgent, RemoteA2aAgent
from flowloom.protocols.a2a import to_a2a
from flowloom.server.serving import bound_socket
from flowloom.testing import FunctionModel

TITLE = "agents from elsewhere: a turn of a remote agent (A2A)"
MODULE = "benchmarks.remote_turns"


async def measured(url: str, rounds: int = 15, each: int = 10) -> dict[str, list[float]]:
    """Milliseconds of both kinds in each round, taken in turns so that other work on the machine falls on both."""
    from a2a.client import ClientConfig, ClientFactory
    from a2a.types import Message, Part, Role, SendMessageRequest

    runner = InMemoryRunner(RemoteA2aAgent("greeter", url, description="Greets."), app_name="app")
    async with httpx.AsyncClient(trust_env=False) as http, runner:
        client = await ClientFactory(ClientConfig(streaming=True, httpx_client=http)).create_from_url(url)

        async def bare(number: int) -> None:
            message = Message(role=Role.ROLE_USER, message_id=str(number), parts=[Part(text="go")])
            async for _ in client.send_message(SendMessageRequest(message=message)):
                pass

        async def turn(number: int) -> None:
            async for _ in runner.run_async(user_id="u", session_id=f"s{number}", new_message="go"):
                pass

        return await in_turns({"bare": bare, "turn": turn}, rounds, each)


def ratios(costs: dict[str, list[float]]) -> list[float]:
    """How many bare calls a turn costs, round by round."""
    return [turn / bare for bare, turn in zip(costs["bare"], costs["turn"], strict=True)]


def run_remote_turns(plan: Plan) -> Row:
    """The line of the table."""
    with served_by(MODULE) as url:
        costs = asyncio.run(measured(url, min(plan.rounds, 15)))
    return Row(TITLE, "× the SDK's bare call", None, {"flowloom": cell_of(ratios(costs))})


def told(rounds: dict[str, list[float]]) -> str:
    """The rows of the report."""
    costs = {name: statistics.median(values) for name, values in rounds.items()}
    return (
        "| | ms |\n|---|---:|\n"
        f"| the A2A SDK's bare call | {costs['bare']:.2f} |\n"
        f"| a turn of a remote agent | {costs['turn']:.2f} |\n\n"
        f"A turn costs {statistics.median(ratios(rounds)):.2f} bare calls.\n"
    )


def serve() -> None:
    """Say the port, and greet until the process is ended."""
    bound = bound_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    greeter = LlmAgent(name="greeter", description="Greets.", model=FunctionModel(lambda _: "Hello."))
    print(port, flush=True)
    uvicorn.Server(uvicorn.Config(to_a2a(greeter, host="127.0.0.1", port=port), log_config=None)).run(sockets=[bound])


if __name__ == "__main__":
    if "serve" in sys.argv:
        serve()
    else:
        with served_by(MODULE) as address:
            print(told(asyncio.run(measured(address))))
