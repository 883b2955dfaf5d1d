"""Real servers for tests: uvicorn on a free port, in a thread, and agents that need no network."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from flowloom import LlmAgent, LlmRequest
from flowloom.server.served import Served
from flowloom.server.serving import address_of, bound_socket, server_of
from flowloom.testing import FunctionModel, call

PATIENCE = 60.0
"""Seconds after which what should come does not come, on a machine that does other things, too."""


@dataclass
class Running:
    """A server that runs."""

    app: Any
    url: str
    server: uvicorn.Server
    loop: asyncio.AbstractEventLoop
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False)

    @property
    def served(self) -> Served:
        return self.app.state.served

    def sessions(self, app_name: str = "desk", user_id: str = "ann") -> str:
        """The path of a user's sessions."""
        return f"/apps/{app_name}/users/{user_id}/sessions"

    def new_session(self, app_name: str = "desk", user_id: str = "ann", **body: Any) -> str:
        """The id of a new session."""
        answer = self.client.post(self.sessions(app_name, user_id), json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["id"]

    def call(self, coroutine: Any) -> Any:
        """What a coroutine gives that runs in the server's event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)


def eventually(found: Callable[[], Any]) -> Any:
    """What is there at last."""
    deadline = time.monotonic() + PATIENCE
    while not (seen := found()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return seen


@contextmanager
def serving(app: Any) -> Iterator[Running]:
    """The application, served until the block is left; its lifespan is entered and left."""
    bound = bound_socket("127.0.0.1", 0)
    server = server_of(app, app.state.served.settings)
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    started, startup = server.startup, threading.Event()

    async def startup_and_tell(sockets: Any = None) -> None:
        try:
            await started(sockets)
        finally:
            startup.set()

    server.startup = startup_and_tell  # type: ignore[method-assign]

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(server._serve([bound]))  # without its signal handlers, which the main thread alone may set
        finally:
            startup.set()
            ready.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert startup.wait(PATIENCE)
    assert server.started
    running = Running(app, address_of(bound, app.state.served.settings.url_prefix), server, loop)
    try:
        yield running
    finally:
        running.client.close()
        server.should_exit = True
        assert ready.wait(PATIENCE)
        thread.join(5)
        bound.close()


def last_words(request: LlmRequest) -> str:
    """What the user said last, or the name of the tool that answered last."""
    for part in reversed((request.contents[-1].parts if request.contents else None) or []):
        if part.text:
            return part.text
        if part.function_response is not None:
            return f"{part.function_response.name}: {part.function_response.response}"
    return ""


def desk(name: str = "desk", **fields: Any) -> LlmAgent:
    """An agent that answers at once, without an end: `time?` calls its tool, `fail!` fails, all else is echoed."""

    def answer(request: LlmRequest) -> Any:
        said = last_words(request)
        if said == "time?":
            return [call("clock", city="Rome")]
        if said == "fail!":
            return RuntimeError("model exploded")
        return f"You said: {said}"

    def clock(city: str) -> dict[str, str]:
        """The time in a city."""
        return {"time": f"noon in {city}"}

    fields.setdefault("tools", [clock])
    return LlmAgent(name=name, description="Answers.", model=FunctionModel(answer, stream_chunks=True), **fields)
