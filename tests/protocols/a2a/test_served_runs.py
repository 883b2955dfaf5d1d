"""Tasks of others as runs of ours: what their clients are told."""

from __future__ import annotations

from a2a.types import GetTaskRequest
from a2a_serving import serving_a2a, states, task_text, text_chunks
from kit import Chat, agent

from flowloom import LlmAgent, RemoteA2aAgent
from flowloom.testing import FunctionModel


async def test_a_text_turn_is_told_chunk_by_chunk_and_kept_as_one() -> None:
    """Chunks make the answer exactly once; the task's artifact is the final text in one part."""
    model = FunctionModel(lambda request: "It is sunny in Rome.", stream_chunks=True)
    async with serving_a2a(LlmAgent(name="desk", description="Tells.", model=model)) as caller:
        said = await caller.send("How is it?")
        task_id = said[0].task.id
        task = await caller.client.get_task(GetTaskRequest(id=task_id))
    assert states(said) == ["submitted", "working", "completed"]
    chunks = [each.artifact_update for each in said if each.HasField("artifact_update")]
    assert len(chunks) > 2
    assert [chunk.append for chunk in chunks] == [False, *[True] * (len(chunks) - 1)]
    assert [chunk.last_chunk for chunk in chunks] == [*[False] * (len(chunks) - 1), True]
    assert "".join(part.text for chunk in chunks for part in chunk.artifact.parts) == "It is sunny in Rome."
    assert text_chunks(said) == "It is sunny in Rome."
    assert [len(artifact.parts) for artifact in task.artifacts] == [1]
    assert task_text(task) == "It is sunny in Rome."


async def test_our_client_talks_to_our_server() -> None:
    """Both sides are ours: two turns in one context, each told what is new."""
    desk = agent("desk", "One.", "Two.", description="Tells.")
    async with serving_a2a(desk) as caller:
        chat = Chat(RemoteA2aAgent("remote", caller.url))
        first, second = await chat.say("a"), await chat.say("b")
        await chat.runner.close()
    assert [e.text for e in [*first, *second] if not e.partial] == ["One.", "Two."]
    assert len(desk.model.requests[1].contents) == 3
