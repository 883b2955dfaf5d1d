"""Agents of every kind, recorded and left at any point: every span ends, and nothing else is left (decision 22)."""

from __future__ import annotations

import asyncio
import time

import pytest
from kit import STREAMED, WHERE, Chat
from opentelemetry import trace
from scenarios.leaving import KINDS, NothingLeft, block, cancelled_at, wait

from telemetry.conftest import Recording


@pytest.mark.parametrize("kind", KINDS)
async def test_breaking_out_after_any_event(kind: str, recording: Recording) -> None:
    number, seen = 0, 0
    while seen == number:
        number, seen = number + 1, 0
        chat = Chat(KINDS[kind](block), config=STREAMED)
        with NothingLeft():
            stream = chat.runner.run_async(**WHERE, new_message="go", run_config=STREAMED)
            async for _ in stream:
                seen += 1
                if seen == number:
                    break
            await stream.aclose()
        assert recording.open == []
        assert trace.get_current_span() is trace.INVALID_SPAN
    assert len(recording.names) > number


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_wherever_a_run_waits(kind: str, recording: Recording) -> None:
    number, more = 0, True
    while more:
        number += 1
        chat = Chat(KINDS[kind](block), config=STREAMED)
        with NothingLeft():
            more = await cancelled_at(number, chat.say("go"))
        assert recording.open == []


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_wherever_something_within_a_run_waits(kind: str, recording: Recording) -> None:
    turns, more = 0, True
    while more:
        turns += 1
        with NothingLeft():
            run = asyncio.create_task(Chat(KINDS[kind](wait), config=STREAMED).say("go"))
            for _ in range(turns):
                await asyncio.sleep(0)
            more = run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        assert recording.open == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_timeout_around_a_run(kind: str, recording: Recording) -> None:
    def slow() -> None:
        """Block for longer than the run may take."""
        time.sleep(0.05)

    with NothingLeft(), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Chat(KINDS[kind](slow)).say("go")
    assert recording.open == []
