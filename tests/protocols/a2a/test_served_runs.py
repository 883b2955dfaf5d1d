"""Tasks of others as runs of ours: what their clients are told."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from a2a.types import GetTaskRequest
from a2a_serving import serving_a2a, states, task_text, text_chunks
from kit import Chat, agent

from flowloom import App, BaseToolset, FunctionTool, LlmAgent, RemoteA2aAgent
from flowloom.errors import ToolsetError
from flowloom.protocols.a2a import agent_card_of
from flowloom.testing import FunctionModel, ScriptedModel


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


class Shelf(BaseToolset):
    """A toolset that is there from the second listing on."""

    def __init__(self) -> None:
        super().__init__(tool_name_prefix="shelf")
        self.listed = 0

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        self.listed += 1
        if self.listed == 1:
            raise ToolsetError("The shelf is away.")

        def look(place: str) -> str:
            """Look at a place."""
            return place

        return [FunctionTool(look)]


async def test_tools_of_toolsets_are_skills_of_the_card(caplog: pytest.LogCaptureFixture) -> None:
    """They are listed when the card is asked for, and once; what cannot be listed is asked again for the next card."""
    shelf = Shelf()
    agent = LlmAgent(name="desk", description="Tells.", tools=[shelf], model=ScriptedModel([]))
    async with serving_a2a(agent) as caller:  # its client has asked once
        cards = [(await caller.http.get(f"{caller.url}/.well-known/agent-card.json")) for _ in range(2)]
    assert [[skill["id"] for skill in card.json()["skills"]] for card in cards] == [["desk", "desk-shelf_look"]] * 2
    assert cards[0].headers["etag"] == cards[1].headers["etag"]
    assert shelf.listed == 2
    assert "The shelf is away." in caplog.text


async def test_the_card_tells_the_apps_version_and_what_files_its_models_take() -> None:
    """Of an `App` that is served, or of a runner's; a model that is not known takes text and data."""

    class Seeing(ScriptedModel):
        media_types: ClassVar[tuple[str, ...]] = ("image/png",)

    helper = LlmAgent(name="helper", model=Seeing([]))
    agent = LlmAgent(name="desk", model=ScriptedModel(["Hi."]), sub_agents=[helper])
    async with serving_a2a(App(name="office", root_agent=agent, version="2.1.0")) as caller:
        seeing = (await caller.http.get(f"{caller.url}/.well-known/agent-card.json")).json()
        assert states(await caller.send("Hi"))[-1] == "completed"
    blind = agent_card_of(LlmAgent(name="blind", model=ScriptedModel([])), "http://localhost:1")
    assert (seeing["version"], seeing["defaultInputModes"]) == (
        "2.1.0",
        ["text/plain", "application/json", "image/png"],
    )
    assert (blind.version, [*blind.default_input_modes]) == ("1.0.0", ["text/plain", "application/json"])


async def test_half_of_a_character_breaks_no_task() -> None:
    """U+FFFD stands for it in an answer, also where it comes in pieces."""
    for stream in (True, False):
        model = ScriptedModel(["half \ud83d of it"], stream_chunks=stream)
        async with serving_a2a(LlmAgent(name="desk", model=model)) as caller:
            said = await caller.send("hi")
        assert (states(said)[-1], text_chunks(said)) == ("completed", "half \ufffd of it")
