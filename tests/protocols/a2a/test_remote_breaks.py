"""Streams of remote agents that break off: the task is taken up again, and the answer comes once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a_peer import Cut, Talk, peer
from kit import Chat

from flowloom import RemoteA2aAgent


async def slow(talk: Talk) -> None:
    await talk.begin()
    for number, word in enumerate(("It ", "is ", "sunny.")):
        await talk.chunk("a", word, append=number > 0)
        await asyncio.sleep(0.15)
    await talk.status("completed")


@pytest.mark.parametrize("pieces", [2, *(pytest.param(many, marks=pytest.mark.soak) for many in (1, 3))])
@pytest.mark.parametrize("streams", [1, 9], ids=["once", "always"])
async def test_a_stream_that_breaks_is_taken_up_again(streams: int, pieces: int) -> None:
    """By `SubscribeToTask`, or by looking at the task where streams break for good; nothing is said twice."""
    cuts: list[Cut] = []

    def behind(app: Any) -> Any:
        cuts.append(Cut(app, streams=streams, pieces=pieces))
        return cuts[0]

    async with peer(slow, behind=behind) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, polling_seconds=0.1))
        async with asyncio.timeout(60):
            events = await chat.say("How is it?")
        await chat.runner.close()
    assert [e.text for e in events if not e.partial and e.text] == ["It is sunny."]
    assert "".join(e.text for e in events if e.partial) in ("It is sunny.", "It is ", "It ")
    assert len(other.heard) == 1
    assert cuts[0].asked.count("SendStreamingMessage") == 1
    assert "SubscribeToTask" in cuts[0].asked or "GetTask" in cuts[0].asked
    assert not other.cancelled


async def test_a_stream_that_ends_too_early_is_looked_after() -> None:
    """A service that closes the stream in good order while the task goes on is asked how it is."""

    async def script(talk: Talk) -> None:
        await talk.begin()
        await talk.chunk("a", "It is ")

        async def later() -> None:
            await asyncio.sleep(0.2)
            await talk.chunk("a", "sunny.", append=True)
            await talk.status("completed")

        tasks.append(asyncio.create_task(later()))

    tasks: list[asyncio.Task[None]] = []
    async with peer(script) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, polling_seconds=0.1))
        async with asyncio.timeout(60):
            events = await chat.say("How is it?")
        await chat.runner.close()
        await asyncio.gather(*tasks)
    assert [e.text for e in events if not e.partial and e.text] == ["It is sunny."]
