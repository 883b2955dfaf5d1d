"""A turn of a remote agent: what it is told, and what its task comes to, against agents of the protocol's SDK."""

from __future__ import annotations

from a2a_peer import Talk, peer
from kit import Chat

from flowloom import RemoteA2aAgent


async def three_chunks(talk: Talk) -> None:
    await talk.begin()
    await talk.status("working", "looking out of the window")
    await talk.chunk("a", "It ")
    await talk.chunk("a", "is ", append=True)
    await talk.chunk("a", "sunny.", append=True)
    await talk.status("completed")


async def test_chunks_without_a_last_one_make_one_stored_final_answer() -> None:
    """The text of an artifact is stored once and whole, though `lastChunk` never came."""
    async with peer(three_chunks) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        events = await chat.say("How is it?")
        stored = await chat.stored()
        await chat.runner.close()
    assert [e.text for e in events if e.partial and not e.content.parts[0].thought] == ["It ", "is ", "sunny."]
    assert [e.text for e in events if not e.partial] == ["It is sunny."]
    assert events[-1].is_final_response()
    assert [e.text for e in stored] == ["How is it?", "It is sunny."]
