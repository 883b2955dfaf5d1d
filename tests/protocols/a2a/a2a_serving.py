"""Our agents behind `to_a2a` on real sockets, and the SDK's client for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a_peer import served

from flowloom.protocols.a2a import to_a2a
from flowloom.server.serving import bound_socket


class Caller:
    """A client of the SDK that keeps the conversation."""

    def __init__(self, url: str, client: Any, http: httpx.AsyncClient) -> None:
        self.url, self.client, self.http = url, client, http
        self.context_id = ""

    async def send(self, *parts: Part | str, task_id: str = "", **configuration: Any) -> list[StreamResponse]:
        """All that the agent says about a message."""
        made = [Part(text=part) if isinstance(part, str) else part for part in parts]
        message = Message(role=Role.ROLE_USER, message_id="u", parts=made, context_id=self.context_id, task_id=task_id)
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))
        said = [response async for response in self.client.send_message(request)]
        for each in said:
            told = getattr(each, each.WhichOneof("payload"))
            self.context_id = told.context_id or self.context_id
        return said

    async def rpc(self, method: str, params: Any = None, **headers: str) -> dict[str, Any]:
        """The answer to a JSON-RPC request, as it is on the wire."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        answer = await self.http.post(f"{self.url}/", json=body, headers={"A2A-Version": "1.0", **headers})
        return answer.json()


@asynccontextmanager
async def serving_a2a(agent: Any, **options: Any) -> AsyncIterator[Caller]:
    """An agent of ours, served until the block is left, with a caller."""
    streaming = options.pop("streaming", True)
    bound = bound_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    app = to_a2a(agent, port=port, **options)
    url = f"http://127.0.0.1:{port}"
    async with served(app, bound), httpx.AsyncClient(trust_env=False) as http:
        factory = ClientFactory(ClientConfig(streaming=streaming, httpx_client=http))
        yield Caller(url, await factory.create_from_url(url), http)


def states(said: list[StreamResponse]) -> list[str]:
    """The states of the task, in order."""
    found: list[int] = []
    for each in said:
        kind = each.WhichOneof("payload")
        if kind in ("task", "status_update"):
            found.append(getattr(each, kind).status.state)
    return [TaskState.Name(state).removeprefix("TASK_STATE_").lower() for state in found]


def text_chunks(said: list[StreamResponse]) -> str:
    """The text of all chunks, put together by their `append`."""
    texts: dict[str, str] = {}
    for each in said:
        if each.WhichOneof("payload") == "artifact_update":
            update = each.artifact_update
            before = texts.get(update.artifact.artifact_id, "") if update.append else ""
            texts[update.artifact.artifact_id] = before + "".join(part.text for part in update.artifact.parts)
    return "|".join(texts.values())


def task_text(task: Task) -> str:
    """The text of a task's artifacts."""
    return "|".join("".join(part.text for part in artifact.parts) for artifact in task.artifacts)
