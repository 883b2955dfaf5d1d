"""Who may ask a server of ours over HTTP, by which names, from which pages, how much; and whose the sessions are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from serving_kit import ERAS, counting, listening, served, words

from flowloom import InMemoryRunner, ToolContext
from flowloom.asgi import Principal
from flowloom.errors import ConfigurationError
from flowloom.protocols.mcp import to_mcp_server

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
TAKES = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def who(tool_context: ToolContext) -> str:
    """Whose session it is."""
    return tool_context.user_id


async def by_name(scope: Mapping[str, Any]) -> Principal | None:
    """The token is the name."""
    told = dict(scope["headers"]).get(b"authorization", b"").decode()
    return Principal(told.removeprefix("Bearer ")) if told else None


async def status(url: str, headers: dict[str, str], path: str = "") -> int:
    """How a request to open a connection is answered."""
    async with httpx2.AsyncClient() as http:
        return (await http.post(url + path, json=INITIALIZE, headers={**TAKES, **headers})).status_code


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:1"}, 200),
        ({"host": "127.0.0.1", "origin": "http://127.0.0.1"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:8000", "origin": "http://evil.example:8000"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
    ],
)
async def test_names_that_were_pointed_here_are_refused(headers: dict[str, str], told: int) -> None:
    """A page of another site reaches nothing (DNS rebinding)."""
    async with served(counting()) as url:
        assert await status(url, headers) == told


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"host": "mcp.example"}, 200),
        ({"host": "mcp.example:8443", "origin": "http://mcp.example:8443"}, 200),
        ({"host": "other.example"}, 403),
        ({"host": "mcp.example", "origin": "http://other.example"}, 403),
        ({}, 200),
    ],
)
async def test_allowed_hosts_are_taken(headers: dict[str, str], told: int) -> None:
    """A proxy may ask by another name, if that was said."""
    async with served(counting(), allowed_hosts=["mcp.example"]) as url:
        assert await status(url, headers) == told


async def test_an_address_that_others_reach_needs_the_names_it_is_asked_by() -> None:
    """With them it is served, and all other names are refused."""
    with pytest.raises(ConfigurationError, match="allowed_hosts"):
        to_mcp_server(counting()).streamable_http_app(host="0.0.0.0")
    with pytest.raises(ConfigurationError, match="allowed_hosts"):
        to_mcp_server(counting()).sse_app(host="0.0.0.0")
    app = to_mcp_server(counting(), allowed_hosts=["mcp.example"]).streamable_http_app(host="0.0.0.0")
    async with listening(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        assert await status(url, {"host": "mcp.example"}) == 200
        assert await status(url, {"host": "evil.example"}) == 403


def test_a_host_that_is_none_is_refused() -> None:
    """An address with a path is no name."""
    with pytest.raises(ConfigurationError, match="is no host"):
        to_mcp_server(counting(), allowed_hosts=["https://mcp.example/mcp"]).streamable_http_app()


async def test_the_older_transport_is_guarded_as_well() -> None:
    """Names and tokens are looked at, and a connection is a conversation."""
    app = to_mcp_server(tools=[who], auth=by_name).sse_app()
    async with listening(app) as port:
        url = f"http://127.0.0.1:{port}/sse"
        async with httpx2.AsyncClient() as http:
            assert (await http.get(url)).status_code == 401
            assert (await http.get(url, headers={"host": "evil.example"})).status_code == 403
        async with Client(sse_client(url, headers={"authorization": "Bearer ann"}), mode="legacy") as client:
            assert words(await client.call_tool("who", {})) == "ann"


@pytest.mark.parametrize("told", [True, False])
async def test_bodies_past_four_mebibytes_are_refused(told: bool) -> None:
    """Whether the length is told or not."""

    async def body() -> Any:
        for _ in range(5):
            yield b" " * 1024 * 1024

    async with served(counting()) as url, httpx2.AsyncClient() as http:
        content = b" " * 5 * 1024 * 1024 if told else body()
        answer = await http.post(url, content=content, headers=TAKES)
    assert answer.status_code == 413


@pytest.mark.parametrize("mode", ERAS)
async def test_the_user_is_the_verified_one(mode: Any) -> None:
    """A token says who asks; what a call says of it does not count."""

    def act(user_id: str, tool_context: ToolContext) -> str:
        """Act."""
        return tool_context.user_id

    async with served(tools=[act], auth=by_name) as url:
        async with httpx2.AsyncClient(headers={"authorization": "Bearer ann"}) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode) as client:
                told = await client.call_tool("act", {"user_id": "bob"}, meta={"user_id": "bob"})
        assert await status(url, {}) == 401
    assert words(told) == "ann"


async def test_a_connection_is_theirs_who_opened_it() -> None:
    """Another user who knows its id finds no such connection."""
    async with served(counting(), auth=by_name) as url, httpx2.AsyncClient(headers=TAKES) as http:
        opened = await http.post(url, json=INITIALIZE, headers={"authorization": "Bearer ann"})
        session = opened.headers["mcp-session-id"]
        body = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        told = {
            name: (
                await http.post(
                    url,
                    json=body,
                    headers={
                        "authorization": f"Bearer {name}",
                        "mcp-session-id": session,
                        "mcp-protocol-version": "2025-11-25",
                    },
                )
            ).status_code
            for name in ("bob", "ann")
        }
    assert told == {"bob": 404, "ann": 200}


async def test_an_app_that_is_not_theirs_is_refused() -> None:
    """A principal uses the apps that are theirs."""

    async def auth(scope: Mapping[str, Any]) -> Principal | None:
        return Principal("ann", apps="other")

    async with served(counting(), auth=auth) as url, Client(url, raise_exceptions=False) as client:
        with pytest.raises(Exception, match="may not use `desk`"):
            await client.call_tool("desk", {"request": "a"})


async def test_unknown_clients_share_no_user() -> None:
    """Without `auth` each connection over HTTP is a user of its own; a pipe is one."""
    async with served(tools=[who]) as url:
        names: list[str] = []
        for _ in range(2):
            async with Client(url, mode="legacy") as client:
                names += [words(await client.call_tool("who", {})) for _ in range(2)]
    async with Client(to_mcp_server(tools=[who])) as client:
        piped = words(await client.call_tool("who", {}))
    assert names[0] == names[1] != names[2] == names[3]
    assert piped == "mcp_user"


async def test_connections_do_not_wait_for_each_other() -> None:
    """While one run goes on, others begin and end; so do several calls of tools on one connection."""
    both = asyncio.Barrier(3)

    async def meet() -> str:
        """Meet the others."""
        await asyncio.wait_for(both.wait(), 60)
        return "met"

    async with served(tools=[meet]) as url, Client(url, mode="legacy") as one, Client(url, mode="legacy") as two:
        calls = [each.call_tool("meet", {}) for each in (one, one, two)]
        assert [words(each) for each in await asyncio.gather(*calls)] == ["met"] * 3


async def test_sessions_that_no_client_comes_back_to_are_forgotten() -> None:
    """A call without a connection leaves nothing in memory; with a runner of the program's all is kept."""
    server = to_mcp_server(counting())
    kept = server._agents["desk"].served.runner
    async with listening(server.streamable_http_app()) as port, Client(f"http://127.0.0.1:{port}/mcp") as client:
        for _ in range(3):
            await client.call_tool("desk", {"request": "a"})
        assert (await kept.session_service.list_sessions(app_name="desk")).sessions == []
    runner = InMemoryRunner(counting(), app_name="desk")
    async with served(runner=runner, session="call") as url, Client(url, mode="legacy") as client:
        told = [words(await client.call_tool("desk", {"request": "a"})) for _ in range(2)]
    assert told == ["1", "1"]
    assert len((await runner.session_service.list_sessions(app_name="desk")).sessions) == 2
