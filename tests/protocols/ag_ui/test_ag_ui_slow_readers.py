"""Pages that read slowly, or not at all, over a socket of their own: what a run tells waits for them (spec §5)."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import pytest
from google.genai import types
from test_ag_ui import page_of

from flowloom import BaseLlm, InMemoryRunner, LlmAgent, LlmResponse, ParallelAgent
from flowloom.testing import ScriptedModel, call
from flowloom.tools import AgentTool

PIECE = "x" * 10_000
MOST = 1000
"""Pieces that a model says at most: 10 MB."""


class Talker(BaseLlm):
    """Says one piece after the other, until nobody listens."""

    said: int = 0
    ended: bool = False

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        try:
            for _ in range(MOST):
                self.said += 1
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=PIECE)]), partial=True)
                await asyncio.sleep(0)
            whole = types.Part(text=PIECE * MOST)
            yield LlmResponse(content=types.Content(role="model", parts=[whole]), turn_complete=True)
        finally:
            self.ended = True


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - models tell by this alone
            await asyncio.sleep(0.01)


async def standing(models: list[Talker]) -> int:
    """How many pieces were said when no more come."""
    said = -1
    while said != sum(model.said for model in models):
        said = sum(model.said for model in models)
        await asyncio.sleep(0.15)
    return said


async def reader(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A page that has asked for a run, and reads nothing of its own; the kernel keeps little for it."""
    bare = socket.socket()
    bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    bare.setblocking(False)
    await asyncio.get_running_loop().sock_connect(bare, ("127.0.0.1", port))
    reading, writing = await asyncio.open_connection(sock=bare, limit=4096)
    message = {"id": "u", "role": "user", "content": "Talk."}
    given = {"threadId": "t1", "runId": "r", "messages": [message], "tools": [], "context": [], "state": None}
    body = json.dumps({**given, "forwardedProps": {}}).encode()
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
    writing.write(head.encode() + body)
    await writing.drain()
    return reading, writing


def talking(how: str) -> tuple[Any, list[Talker]]:
    """An agent, and the models that talk in its runs."""
    models = [Talker(model="talker") for _ in range(1 if how == "alone" else 2)]
    agents = [LlmAgent(name=f"talker_{number}", model=model) for number, model in enumerate(models)]
    if how == "behind calls":
        tools = [AgentTool(agent) for agent in agents]
        calls = [call(agent.name, request="Talk.") for agent in agents]
        return LlmAgent(name="desk", model=ScriptedModel([calls, "Done."]), tools=tools), models
    return (ParallelAgent(name="all", sub_agents=agents) if how == "in parallel" else agents[0]), models


@pytest.mark.parametrize("how", ["alone", "in parallel", "behind calls"])
async def test_a_page_that_does_not_read_stops_the_models(how: str) -> None:
    """What is told and not read does not pile up here: models go on when the page reads, and end when it leaves."""
    agent, models = talking(how)
    runner = InMemoryRunner(agent)
    async with page_of(runner, user="ann") as page:
        reading, writing = await reader(page.http.base_url.port or 0)
        await until(lambda: all(model.said > 1 for model in models))
        said = await standing(models)
        assert said < MOST  # of 10 MB, what sockets hold
        for _ in range(300):
            await reading.read(65536)
        await until(lambda: sum(model.said for model in models) > said)
        said = await standing(models)
        assert said < len(models) * MOST
        writing.close()
        with suppress(ConnectionError):
            await writing.wait_closed()
        await until(lambda: all(model.ended for model in models))
        assert max(model.said for model in models) < MOST
    session = await runner.session_service.get_session(app_name=runner.app_name, user_id="ann", session_id="t1")
    assert session is not None
    assert not any(event.partial for event in session.events)
