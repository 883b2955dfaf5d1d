"""The other side: agents of the protocol's own SDK, and ours, on real sockets of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from starlette.applications import Starlette

from flowloom.server.serving import bound_socket

STATES = {name.removeprefix("TASK_STATE_").lower().replace("_", "-"): value for name, value in TaskState.items()}


class Talk:
    """What a scripted agent says about the task of one message."""

    def __init__(self, context: RequestContext, queue: EventQueue) -> None:
        assert context.message is not None
        self.context, self.queue, self.message = context, queue, context.message
        self.ids = {"task_id": context.task_id, "context_id": context.context_id}

    @property
    def words(self) -> str:
        return "\n".join(part.text for part in self.message.parts if part.text)

    @property
    def goes_on(self) -> bool:
        """Whether the message is about a task that was there."""
        return self.context.current_task is not None

    async def begin(self, state: str = "submitted") -> None:
        """The task as it begins; one that goes on is working again."""
        if self.goes_on:
            await self.status("working")
            return
        status = TaskStatus(state=STATES[state])
        task = Task(id=self.ids["task_id"], context_id=self.ids["context_id"], status=status, history=[self.message])
        await self.queue.enqueue_event(task)

    async def status(self, state: str, *parts: Part | str, **fields: Any) -> None:
        message = None
        if parts:
            made = [Part(text=part) if isinstance(part, str) else part for part in parts]
            message = Message(role=Role.ROLE_AGENT, message_id=f"m-{state}", parts=made, **fields)
        status = TaskStatus(state=STATES[state], message=message)
        await self.queue.enqueue_event(TaskStatusUpdateEvent(**self.ids, status=status))

    async def chunk(
        self, name: str, *parts: Part | str, append: bool = False, last: bool | None = None, **fields: Any
    ) -> None:
        made = [Part(text=part) if isinstance(part, str) else part for part in parts]
        artifact = Artifact(artifact_id=name, parts=made, **fields)
        update = TaskArtifactUpdateEvent(**self.ids, artifact=artifact, append=append, last_chunk=bool(last))
        await self.queue.enqueue_event(update)

    async def answer(self, *parts: Part | str) -> None:
        """A message instead of a task."""
        made = [Part(text=part) if isinstance(part, str) else part for part in parts]
        await self.queue.enqueue_event(
            Message(role=Role.ROLE_AGENT, message_id="m-answer", context_id=self.ids["context_id"], parts=made)
        )


Script = Callable[[Talk], Awaitable[None]]


class Peer(AgentExecutor):
    """An agent of the SDK that does what a script says; it keeps what it was told."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.heard: list[Message] = []
        self.headers: list[dict[str, str]] = []
        self.cancelled: list[str] = []
        self.url = ""
        self.card_requests = 0

    @property
    def words(self) -> list[str]:
        return ["\n".join(part.text for part in message.parts if part.text) for message in self.heard]

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        kept = Message()
        kept.CopyFrom(context.message)
        self.heard.append(kept)
        self.headers.append(context.call_context.state["headers"])
        await self.script(Talk(context, event_queue))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(context.task_id or "")
        status = TaskStatus(state=TaskState.TASK_STATE_CANCELED)
        update = TaskStatusUpdateEvent(task_id=context.task_id, context_id=context.context_id, status=status)
        await event_queue.enqueue_event(update)


def peer_card(url: str, **fields: Any) -> AgentCard:
    capabilities = fields.pop("capabilities", AgentCapabilities(streaming=True))
    interfaces = fields.pop("interfaces", [AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")])
    fields.setdefault("description", "Knows the weather of every city.")
    return AgentCard(
        name="weather",
        version="1",
        supported_interfaces=interfaces,
        capabilities=capabilities,
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="weather", name="weather", description="Tells the weather.", tags=["weather"])],
        **fields,
    )


@asynccontextmanager
async def served(app: Any, bound: Any) -> AsyncIterator[None]:
    """An application on a socket, in this event loop."""
    config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1, access_log=False)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([bound]))
    while not server.started:
        assert not task.done(), "the server has not started"
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        await task
        bound.close()


@asynccontextmanager
async def peer(script: Script, *, behind: Callable[[Any], Any] = lambda app: app, **card: Any) -> AsyncIterator[Peer]:
    """An agent of the SDK that does what `script` says, on a socket; `behind` puts something before it."""
    bound = bound_socket("127.0.0.1", 0)
    made = Peer(script)
    made.url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    told = peer_card(f"{made.url}/", **card)
    handler = DefaultRequestHandler(agent_executor=made, task_store=InMemoryTaskStore(), agent_card=told)

    async def counted(card: AgentCard) -> AgentCard:
        made.card_requests += 1
        return card

    routes = [*create_agent_card_routes(told, card_modifier=counted), *create_jsonrpc_routes(handler, "/")]

    @asynccontextmanager
    async def living(app: Any) -> AsyncIterator[None]:
        yield
        await handler.aclose()

    async with served(behind(Starlette(routes=routes, lifespan=living)), bound):
        yield made


class Cut:
    """Breaks the first `streams` event streams off, each after `pieces` of it."""

    def __init__(self, app: Any, *, streams: int, pieces: int) -> None:
        self.app, self.streams, self.pieces = app, streams, pieces
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sent, breaks = 0, False

        async def heard() -> Any:
            message = await receive()
            found = re.search(rb'"method": ?"(\w+)"', message.get("body", b""))
            if found is not None:
                self.asked.append(found[1].decode())
            return message

        async def cutting(message: Any) -> None:
            nonlocal sent, breaks
            if message["type"] == "http.response.start" and self.streams > 0:
                breaks = (b"content-type", b"text/event-stream; charset=utf-8") in message["headers"]
                self.streams -= breaks
            elif breaks:
                sent += 1
                if sent > self.pieces:
                    raise ConnectionError("cut")
            await send(message)

        with contextlib.suppress(ConnectionError, BaseExceptionGroup):
            await self.app(scope, heard, cutting)
