"""Summaries that are written after a run, while the next one may begin."""

from __future__ import annotations

import asyncio
import logging

import pytest

from compaction.logs import Gate, Tally, session_of, shown_words, turns
from flowloom import Event, EventsCompactionConfig, InMemorySessionService, Session
from flowloom.compaction import BackgroundCompaction
from flowloom.errors import StorageError
from flowloom.log import Viewer

ROOT = Viewer("root", keeps_call_ids=True)


async def loaded(service: InMemorySessionService) -> Session:
    session = await service.get_session(app_name="app", user_id="ann", session_id="s1")
    assert session is not None
    return session


def shown(session: Session) -> list[str]:
    return shown_words(session.history.contents(session.events, ROOT).contents)


def config(gate: Tally) -> EventsCompactionConfig:
    return EventsCompactionConfig(summarizer=gate, compaction_interval=2)


async def test_a_run_may_go_on_while_the_summary_is_written() -> None:
    gate = Gate()
    ended, service = await session_of(*turns(2))
    background = BackgroundCompaction(config(gate))
    background.after_run(ended, service)
    await gate.asked_for.wait()
    running = await loaded(service)
    for each in turns(1, start=2):
        await service.append_event(running, each)
    assert shown(running) == ["u0", "a0", "u1", "a1", "u2", "a2"]
    gate.open.set()
    await background.idle()
    for each in turns(1, start=3):
        await service.append_event(running, each)
    assert shown(running) == ["u0", "a0", "u1", "a1", "u2", "a2", "u3", "a3"]
    assert shown(await loaded(service)) == ["<u0 a0 u1 a1>", "u2", "a2", "u3", "a3"]
    await background.aclose()


async def test_a_session_has_one_task_at_a_time_and_is_looked_at_once_more() -> None:
    gate = Gate()
    ended, service = await session_of(*turns(2))
    background = BackgroundCompaction(config(gate))
    background.after_run(ended, service)
    await gate.asked_for.wait()
    for number in (2, 3, 4):
        running = await loaded(service)
        for each in turns(1, start=number, size=9):
            await service.append_event(running, each)
        background.after_run(running, service)
    assert len([task for task in asyncio.all_tasks() if "_work" in repr(task)]) == 1
    gate.open.set()
    await background.idle()
    assert len(gate.asked) == 2
    await background.aclose()


async def test_closing_waits_for_the_summary() -> None:
    gate = Gate()
    ended, service = await session_of(*turns(2))
    background = BackgroundCompaction(config(gate))
    background.after_run(ended, service)
    await gate.asked_for.wait()
    asyncio.get_running_loop().call_soon(gate.open.set)
    await background.aclose()
    assert shown(await loaded(service)) == ["<u0 a0 u1 a1>"]


async def test_closing_cancels_what_takes_too_long() -> None:
    before = asyncio.all_tasks()
    gate = Gate()
    ended, service = await session_of(*turns(2))
    background = BackgroundCompaction(config(gate))
    background.after_run(ended, service)
    await gate.asked_for.wait()
    await background.aclose(timeout=0)
    assert asyncio.all_tasks() == before
    assert shown(await loaded(service)) == ["u0", "a0", "u1", "a1"]


async def test_nothing_is_started_after_closing() -> None:
    ended, service = await session_of(*turns(2))
    background = BackgroundCompaction(config(Tally()))
    await background.aclose()
    background.after_run(ended, service)
    await background.idle()
    assert shown(await loaded(service)) == ["u0", "a0", "u1", "a1"]


async def test_a_store_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(InMemorySessionService):
        async def append_event(self, session: Session, event: Event) -> Event:
            raise StorageError("The disk is full.")

    ended, _ = await session_of(*turns(2))
    background = BackgroundCompaction(config(Tally()))
    with caplog.at_level(logging.WARNING, "flowloom.compaction"):
        background.after_run(ended, Broken())
        await background.aclose()
    assert "StorageError: The disk is full." in caplog.text
