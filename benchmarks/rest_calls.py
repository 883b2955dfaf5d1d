"""Tools from elsewhere: what a turn with a call of an OpenAPI operation costs more than one with a function.

The measure is a bare call of the HTTP client over the same kind of connection, without an agent: `python -m
benchmarks.rest_calls` prints all three, in milliseconds of this process's own time (the server is another process), how
many bare calls the call costs, and how long reading a document of 1,000 operations takes.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

from benchmarks.beside import in_turns, served_by
from benchmarks.results import Row
from benchmarks.rounds import Plan, cell_of
from flowloom import InMemoryRunner, LlmAgent, OpenAPIToolset
from flowloom.testing import ScriptedModel, call

TITLE = "tools from elsewhere: an OpenAPI call in a turn, less a function"
MODULE = "benchmarks.rest_calls"


class Adder(BaseHTTPRequestHandler):
    """Adds two numbers of a query."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet

    def do_GET(self) -> None:
        values = dict(pair.split("=") for pair in self.path.partition("?")[2].split("&"))
        body = json.dumps({"result": int(values["a"]) + int(values["b"])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def document(url: str, operations: int = 1) -> dict[str, Any]:
    """A document with so many operations, which share their schemas."""
    numbers = [
        {"name": name, "in": "query", "required": True, "schema": {"$ref": "#/components/schemas/Number"}}
        for name in "ab"
    ]
    paths = {
        f"/add{number or ''}": {"get": {"operationId": f"add{number or ''}", "parameters": numbers, "responses": {}}}
        for number in range(operations)
    }
    schemas = {"Number": {"type": "integer", "description": "A number."}}
    head = {"openapi": "3.1.0", "info": {"title": "Adder", "version": "1"}, "servers": [{"url": url}]}
    return {**head, "paths": paths, "components": {"schemas": schemas}}


async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"result": a + b}


def turns(tool: Any, count: int) -> tuple[InMemoryRunner, Callable[[int], Awaitable[None]]]:
    """A runner, and a turn of a session of its own with one call."""
    answers: list[Any] = [answer for _ in range(count) for answer in (call("add", a=1, b=2), "3")]
    runner = InMemoryRunner(LlmAgent(name="root", model=ScriptedModel(answers), tools=[tool]), app_name="app")

    async def turn(number: int) -> None:
        async for _ in runner.run_async(user_id="u", session_id=f"s{number}", new_message="go"):
            pass

    return runner, turn


async def measured(url: str, rounds: int = 20, each: int = 20) -> dict[str, list[float]]:
    """Milliseconds of each kind in each round, taken in turns so that other work on the machine falls on all."""
    count = (rounds + 1) * each
    toolset = OpenAPIToolset(spec_dict=document(url), allow_private_network_access=True)
    plain, function_turn = turns(add, count)
    remote, rest_turn = turns(toolset, count)
    async with httpx2.AsyncClient() as client, plain, remote:

        async def bare(_: int) -> None:
            (await client.get(f"{url}/add?a=1&b=2")).json()

        values = await in_turns({"bare": bare, "function": function_turn, "rest": rest_turn}, rounds, each)
    large = OpenAPIToolset(spec_str=json.dumps(document(url, 1000)))
    began = time.process_time()
    await large.get_tools()
    return values | {"reading": [(time.process_time() - began) * 1000]}


def ratios(costs: dict[str, list[float]]) -> list[float]:
    """How many bare calls the call costs in a turn, round by round."""
    return [
        (rest - function) / bare
        for bare, function, rest in zip(costs["bare"], costs["function"], costs["rest"], strict=True)
    ]


def run_rest_calls(plan: Plan) -> Row:
    """The line of the table."""
    with served_by(MODULE) as url:
        costs = asyncio.run(measured(url, min(plan.rounds, 15)))
    return Row(TITLE, "× the HTTP client's bare call", None, {"flowloom": cell_of(ratios(costs))})


def told(rounds: dict[str, list[float]]) -> str:
    """The rows of the report."""
    costs = {name: statistics.median(values) for name, values in rounds.items()}
    return (
        "| | ms |\n|---|---:|\n"
        f"| the HTTP client's bare call | {costs['bare']:.2f} |\n"
        f"| a turn with a call of a function | {costs['function']:.2f} |\n"
        f"| a turn with a call of an OpenAPI operation | {costs['rest']:.2f} |\n"
        f"| reading a document of 1,000 operations, once | {costs['reading']:.0f} |\n\n"
        f"The call costs {statistics.median(ratios(rounds)):.2f} bare calls.\n"
    )


def serve() -> None:
    """Say the port, and add until the process is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Adder)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    if "serve" in sys.argv:
        serve()
    else:
        with served_by(MODULE) as address:
            print(told(asyncio.run(measured(address))))
