"""Whoever cancels a run, and how often: its history is legal, it ends soon, and nothing stays behind."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import Chat, agent, open_calls
from scenarios.leaving import FORWARDING, KINDS, NothingLeft, wait

from flowloom import InMemorySessionService, PostgresSessionService, Runner, SqliteSessionService
from flowloom.testing import call
from runner.situations import Gate, ended_events, legal

SOON = 15.0
"""Seconds: a run ends within two, but for what else the machine has to do; the lock of another lasts on."""
WHO: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}


class Slow(InMemorySessionService):
    """A store that lets others have their turn in the middle."""

    async def append_event(self, session: Any, event: Any) -> Any:
        for _ in range(2):
            await asyncio.sleep(0)
        return await super().append_event(session, event)


class Stuck(InMemorySessionService):
    """A store that takes nothing any more once it is stuck."""

    stuck = False

    async def append_event(self, session: Any, event: Any) -> Any:
        if self.stuck:
            await asyncio.Event().wait()
        return await super().append_event(session, event)


async def insist(task: asyncio.Task[Any]) -> None:
    """Cancel a task in every turn of the loop until it is over."""
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["parallel agents", "agent tools"])
async def test_cancelled_again_and_again_every_call_is_answered(kind: str) -> None:
    """Any number of cancels cuts off no clean-up, whether the run is held or awaited."""
    for turns in range(2, 24, 3):
        runner = Runner(app_name="app", agent=KINDS[kind](wait), session_service=Slow(), auto_create_session=True)
        with NothingLeft():
            task = asyncio.create_task(runner.run_to_result(**WHO, new_message="go", run_config=FORWARDING))
            for _ in range(turns):
                await asyncio.sleep(0)
            await insist(task)
            with pytest.raises(asyncio.CancelledError):
                await task
        session = await runner.session_service.get_session(app_name="app", **WHO)
        events = session.events if session is not None else []
        legal(events)
        assert open_calls(events) == set()


async def test_a_cancelled_run_does_not_wait_for_a_store_that_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither for what answers its calls, nor for what tells that it was cancelled."""
    monkeypatch.setattr("flowloom.flow.ending.FINISHING_SECONDS", 0.01)
    store, gate = Stuck(), Gate()
    root = agent("root", call("look"), tools=[gate.look])
    runner = Runner(app_name="app", agent=root, session_service=store, auto_create_session=True)
    run = runner.start(**WHO, new_message="go")
    await gate.reached.wait()
    store.stuck = True
    run.cancel()
    result = await asyncio.wait_for(run.result(), SOON)
    assert (result.status, open_calls(result.events)) == ("cancelled", {result.events[0].get_function_calls()[0].id})
    assert {each.name for each in caplog.records if "has not taken" in each.message} == {"flowloom.sessions"}


async def test_a_failure_that_is_cancelled_leaves_no_call_open() -> None:
    """Answering the calls of a run that has failed is not cut off either."""
    gate = Gate()

    async def fail() -> None:
        """Fail."""
        await gate()
        raise ValueError("no")

    root = agent("root", [call("fail"), call("fail")], "next", tools=[fail], tool_errors="raise")
    runner = Runner(app_name="app", agent=root, session_service=Slow(), auto_create_session=True)
    task = asyncio.create_task(runner.run_to_result(**WHO, new_message="go"))
    await gate.reached.wait()
    gate.open.set()
    await asyncio.sleep(0)
    await insist(task)
    session = await runner.session_service.get_session(app_name="app", **WHO)
    assert session is not None
    legal(session.events)
    assert open_calls(session.events) == set()


@pytest.fixture(params=["sqlite", "postgres"])
def locked(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A service, and how to lock its store as another process would; what that gives ends the lock."""
    if request.param == "sqlite":
        path = tmp_path / "a.db"

        def lock() -> Callable[[], None]:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            return other.close

        return SqliteSessionService(path), lock
    import psycopg

    dsn: str = request.getfixturevalue("postgres_dsn")

    def lock_rows() -> Callable[[], None]:
        other = psycopg.connect(dsn)
        other.execute("SELECT 1 FROM flowloom_sessions FOR UPDATE")
        return other.close

    return PostgresSessionService(dsn), lock_rows


@pytest.mark.parametrize("held", [True, False])
async def test_cancelled_while_another_process_has_locked_the_store_it_ends_soon(locked: Any, held: bool) -> None:
    """The run ends soon; what was to be recorded is written when the lock is gone."""
    service, lock = locked
    gate = Gate()
    root = agent("root", [call("look"), call("look")], "next", tools=[gate.look])
    runner = Runner(app_name="app", agent=root, session_service=service, auto_create_session=True)
    chat: Any = Chat(runner=runner)  # type: ignore[arg-type]
    handle = runner.start(**WHO, new_message="go") if held else None
    task = asyncio.create_task(handle.result() if handle else runner.run_to_result(**WHO, new_message="go"))
    await gate.reached.wait()
    unlock = lock()
    try:
        gate.open.set()  # the results are on their way into the store
        await asyncio.sleep(0.02)
        began = time.monotonic()
        handle.cancel() if handle else task.cancel()
        await asyncio.wait({task}, timeout=40)
        assert time.monotonic() - began < SOON
        assert task.done()
        assert {each.name for each in threading.enumerate() if each.name.startswith("flowloom:")} == set()
    finally:
        unlock()
    events = await chat.stored()
    legal(events)
    assert open_calls(events) == set()
    assert ended_events(events) == (["cancelled"] if held else [])
    await service.close()


async def test_cancelled_before_it_has_the_session_of_a_locked_store_it_ends_soon(locked: Any) -> None:
    """Waiting for the lease, or for the session, is given up at once."""
    service, lock = locked
    runner = Runner(
        app_name="app", agent=agent("root", "hi", "hi", "hi"), session_service=service, auto_create_session=True
    )
    await runner.run_to_result(**WHO, new_message="go")
    unlock = lock()
    try:
        task = asyncio.create_task(runner.run_to_result(**WHO, new_message="and now?"))
        await asyncio.sleep(0.02)
        began = time.monotonic()
        task.cancel()
        await asyncio.wait({task}, timeout=40)
        assert time.monotonic() - began < SOON
        assert task.done()
    finally:
        unlock()
    assert (await runner.run_to_result(**WHO, new_message="again")).status == "final"
    await service.close()
