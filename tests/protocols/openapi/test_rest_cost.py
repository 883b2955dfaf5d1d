"""What a call of an operation costs beside the HTTP client's own, in steps of the interpreter."""

from __future__ import annotations

from typing import Any

import httpx2
from protocols.interpreter_steps import TURNS, steps
from protocols.openapi.service import Reply, Service

from benchmarks.rest_calls import add, document, turns
from flowloom import OpenAPIToolset

AIM = 1.2
"""How many bare calls a call may cost in a turn."""


async def test_a_call_in_a_turn_costs_little_more_than_the_clients_own(service: Service) -> None:
    """A turn with a call of an operation, less the same turn with a function, beside a bare call of the client."""
    service.replies = [Reply({"result": 3})]
    toolset = OpenAPIToolset(spec_dict=document(service.url), allow_private_network_access=True)
    plain, function_turn = turns(add, 2 * TURNS)
    remote, rest_turn = turns(toolset, 2 * TURNS)
    async with httpx2.AsyncClient() as client, plain, remote:

        async def bare(_: int) -> Any:
            return (await client.get(f"{service.url}/add?a=1&b=2")).json()

        cost = await steps(rest_turn) - await steps(function_turn)
        assert cost <= AIM * await steps(bare)
