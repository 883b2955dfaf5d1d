"""What serves runs: the protocol that stands between a server and a runner, and the runner of this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED
from server.serving import serving
from server.talker import body, run, stored, talker

from flowloom import InMemorySessionService, Runner
from flowloom.events import Event
from flowloom.server import app_of
from flowloom.server.run_service import LocalRuns, RunService


async def begun(said: str) -> tuple[LocalRuns, InMemorySessionService, dict[str, Any]]:
    """A service with one session, and the arguments of a run in it."""
    sessions = InMemorySessionService()
    await sessions.create_session(app_name="desk", user_id="ann", session_id="s1")
    runner = Runner(app_name="desk", agent=talker(), session_service=sessions)
    message = types.Content(role="user", parts=[types.Part(text=said)])
    return (
        LocalRuns(runner),
        sessions,
        {"user_id": "ann", "session_id": "s1", "new_message": message, "run_config": STREAMED},
    )


async def test_a_runner_of_this_process_serves_runs() -> None:
    """The event of the message comes first; the position is that of the log."""
    service, sessions, arguments = await begun("hello")
    serves: RunService = service
    seen = [(event.author, serves.position("r1")) async for event in serves.run_async("r1", **arguments)]
    assert seen == [("user", 1), ("desk", 2)]
    session = await sessions.get_session(app_name="desk", user_id="ann", session_id="s1")
    assert session is not None
    assert len(session.events) == 2


async def test_a_run_is_served_as_typed_events() -> None:
    """The models stream."""
    service, _, arguments = await begun("say 2")
    kinds = [type(event).__name__ async for event in service.run_stream("r1", **arguments)]
    assert kinds.count("TextDelta") == 2
    assert kinds[-1] == "RunFinished"


@pytest.mark.parametrize("said", ["tool wait", "hang 1"])
async def test_a_run_that_is_cancelled_gives_its_last_events(said: str) -> None:
    """The generator ends by itself; cancelling again, or what is over, is fine."""
    service, _, arguments = await begun(said)
    seen: list[Event] = []
    begun_it = asyncio.Event()

    async def read() -> None:
        async for event in service.run_async("r1", **arguments):
            seen.append(event)
            if event.author == "desk":
                begun_it.set()

    reading = asyncio.create_task(read())
    await begun_it.wait()
    await asyncio.sleep(0)  # the run goes on meanwhile
    service.cancel("r1")
    service.cancel("r1")
    await asyncio.wait([reading])
    assert seen[-1].error_code == "RunCancelledError"
    service.cancel("r1")


async def test_a_run_is_cancelled_while_its_reader_is_busy() -> None:
    """What the reader does then is not cut off; the next event that it gets is one of the last."""
    service, _, arguments = await begun("say 5")
    seen: list[Event] = []

    async def read() -> None:
        async for event in service.run_async("r1", **arguments):
            seen.append(event)
            if len(seen) == 2:
                service.cancel("r1")
                await asyncio.sleep(0.01)

    await asyncio.wait([asyncio.create_task(read())])
    assert seen[-1].error_code == "RunCancelledError"
    assert len(seen) < 5


def test_a_run_elsewhere_keeps_the_session() -> None:
    """What another process has in the store is told like a run of this one: 409, before any stream."""
    with serving(app_of(talker(), on_busy="reject")) as server:
        session = server.new_session()
        names = {"app_name": "desk", "user_id": "ann", "session_id": session}
        lease = server.call(server.served.sessions.acquire_lease(**names, wait=False))
        for path in ("/run", "/run_sse"):
            answer = server.client.post(path, json=body(session))
            assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
            assert answer.headers["retry-after"] == "1"
        server.call(lease.release())
        assert run(server, session)
        assert len(stored(server, session)) == 2
