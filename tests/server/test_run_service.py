"""A run of this process, as the server has it: where its events stand, and how it is cut off."""

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
from flowloom.server.local_run import LocalRun, RunSource


async def begun(said: str) -> tuple[LocalRun, InMemorySessionService]:
    """A run in a new session."""
    sessions = InMemorySessionService()
    await sessions.create_session(app_name="desk", user_id="ann", session_id="s1")
    runner = Runner(app_name="desk", agent=talker(), session_service=sessions)
    message = types.Content(role="user", parts=[types.Part(text=said)])
    arguments: Any = {"user_id": "ann", "session_id": "s1", "new_message": message, "run_config": STREAMED}
    return LocalRun(runner, arguments), sessions


async def test_each_event_has_its_place() -> None:
    """The event of the message comes first; partial ones are counted from the last stored one on."""
    local, sessions = await begun("say 2")
    source: RunSource = local
    seen = [(event.author, source.place) async for event in source.events()]
    assert seen == [("user", (1, 0)), ("desk", (1, 1)), ("desk", (1, 2)), ("desk", (2, 0))]
    session = await sessions.get_session(app_name="desk", user_id="ann", session_id="s1")
    assert session is not None
    assert len(session.events) == 2


@pytest.mark.parametrize("said", ["tool wait", "hang 1"])
async def test_a_run_that_is_cancelled_gives_its_last_events(said: str) -> None:
    """The generator ends by itself; cancelling again, or what is over, is fine."""
    source, _ = await begun(said)
    seen: list[Event] = []
    begun_it = asyncio.Event()

    async def read() -> None:
        async for event in source.events():
            seen.append(event)
            if event.author == "desk":
                begun_it.set()

    reading = asyncio.create_task(read())
    await begun_it.wait()
    await asyncio.sleep(0)  # the run goes on meanwhile
    source.cancel()
    source.cancel()
    await asyncio.wait([reading])
    assert seen[-1].error_code == "RunCancelledError"
    source.cancel()


async def test_a_run_is_cancelled_while_its_reader_is_busy() -> None:
    """What the reader does then is not cut off; the next event that it gets is one of the last."""
    source, _ = await begun("say 5")
    seen: list[Event] = []

    async def read() -> None:
        async for event in source.events():
            seen.append(event)
            if len(seen) == 2:
                source.cancel()
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
