"""Servers of ours on loopback, and what their clients read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from flowloom import LlmAgent, LlmRequest
from flowloom.protocols.mcp import to_mcp_server
from flowloom.testing import FunctionModel

ERAS = ("auto", "legacy")
PNG = b"\x89PNG\r\n\x1a\n"


def counting() -> LlmAgent:
    """An agent that says how many messages of the user it sees."""

    def count(request: LlmRequest) -> str:
        return str(sum(content.role == "user" for content in request.contents))

    return LlmAgent(name="desk", description="Counts.", model=FunctionModel(count))


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[int]:
    """The port at which an application is served."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def served(agent: Any = None, **options: Any) -> AsyncIterator[str]:
    """The address of a server of `to_mcp_server`, on loopback."""
    async with listening(to_mcp_server(agent, **options).streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def words(result: Any) -> str:
    """The texts of a result."""
    return "".join(block.text for block in result.content if block.type == "text")


def data(result: Any) -> Any:
    """The JSON of a result's text."""
    return json.loads(words(result))
