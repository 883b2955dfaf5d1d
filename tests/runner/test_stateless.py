"""Runs of which nothing is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, requests_of, shown

from flowloom import (
    InMemoryArtifactService,
    InMemoryMemoryService,
    InMemorySessionService,
    InputValidationError,
    LlmAgent,
    Runner,
    ToolContext,
)
from flowloom.testing import call
from runner.situations import ByTurn, Gate, Gated, nothing_left


def runner_of(root: Any, **services: Any) -> Runner:
    services.setdefault("session_service", InMemorySessionService())
    return Runner(app_name="app", agent=root, **services)


async def test_a_message_is_answered() -> None:
    result = await runner_of(agent("root", "hi")).run_stateless("go")
    assert (result.status, result.text) == ("final", "hi")


async def test_nothing_stays_in_any_service() -> None:
    async def keep(tool_context: ToolContext) -> str:
        """Keep things everywhere."""
        tool_context.state.update({"own": 1, "user:mine": 2, "app:ours": 3})
        await tool_context.save_artifact("user:note.txt", types.Part(text="a note"))
        memory = tool_context.invocation_context.memory_service
        assert memory is not None
        await memory.add_session_to_memory(tool_context.session)
        return "kept"

    sessions, files, memories = InMemorySessionService(), InMemoryArtifactService(), InMemoryMemoryService()
    await sessions.create_session(app_name="app", user_id="user", session_id="s1", state={"before": True})
    root = agent("root", call("keep"), "done", tools=[keep])
    runner = runner_of(root, session_service=sessions, artifact_service=files, memory_service=memories)
    result = await runner.run_stateless("go", state={"given": 1})
    assert result.state_delta == {"own": 1, "user:mine": 2, "app:ours": 3}
    (only,) = (await sessions.list_sessions(app_name="app")).sessions
    assert only.state == {"before": True}
    names: dict[str, Any] = {"app_name": "app", "user_id": "user"}
    assert await files.list_artifact_keys(**names, session_id="s1") == []
    found = await memories.search_memory(**names, query="go done note")
    assert found.memories == []
    nothing_left()


async def test_one_run_knows_nothing_of_another() -> None:
    root = agent("root", "one", "two")
    runner = runner_of(root)
    await runner.run_stateless("a")
    await runner.run_stateless("b")
    assert shown(requests_of(root)[1]) == ["user: b"]


async def test_it_sees_the_state_that_it_is_given() -> None:
    root = agent("root", "hi", instruction="Speak {language}.")
    await runner_of(root).run_stateless("go", state={"language": "Dutch"})
    assert "Speak Dutch." in str(requests_of(root)[0].config.system_instruction)


@pytest.mark.parametrize("concurrency", ["queue", "reject", "allow"])
async def test_many_work_at_once(concurrency: Any) -> None:
    gate = Gate()
    root = LlmAgent(name="root", model=Gated("hi", gate=gate))
    runner = runner_of(root, concurrency=concurrency)
    tasks = [asyncio.create_task(runner.run_stateless(f"go {n}")) for n in range(20)]
    await gate.reached.wait()
    gate.open.set()
    results = await asyncio.gather(*tasks)
    assert [result.text for result in results] == ["hi"] * 20
    assert len({result.invocation_id for result in results}) == 20


async def test_what_ends_it_is_raised() -> None:
    with pytest.raises(RuntimeError, match="no"):
        await runner_of(agent("root", RuntimeError("no"))).run_stateless("go")
    with pytest.raises(InputValidationError):
        await runner_of(agent("root")).run_stateless(types.Content(role="user", parts=[]))


async def test_cancelling_it_leaves_nothing() -> None:
    gate = Gate()
    task = asyncio.create_task(
        runner_of(LlmAgent(name="root", model=ByTurn(call("look"), "x"), tools=[gate.look])).run_stateless("go")
    )
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    nothing_left()


async def test_the_runner_goes_on_as_before() -> None:
    chat = Chat(agent("root", "one", "two", "three"))
    await chat.say("a")
    await chat.runner.run_stateless("b")
    await chat.say("c")
    assert [event.text for event in await chat.stored()] == ["a", "one", "c", "three"]
