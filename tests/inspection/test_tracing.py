"""Requests that are followed in runs: noted at once, and put together when somebody looks."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from flowloom import InMemorySessionService, LlmAgent, Runner
from flowloom.inspection import assembly
from flowloom.inspection.assembly import Tracing
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest, snapshot
from flowloom.testing import ScriptedModel, call


async def told(tracing: Tracing, *messages: str) -> None:
    """A conversation that is looked at."""

    def clock() -> str:
        """The time."""
        return "noon"

    model = ScriptedModel([call("clock"), *("Hello." for _ in messages)])
    agent = LlmAgent(name="desk", model=model, instruction="Answer.", tools=[clock])
    runner = Runner(agent=agent, app_name="a", session_service=InMemorySessionService(), observers=[tracing])
    await runner.session_service.create_session(app_name="a", user_id="u", session_id="s")
    for message in messages:
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
    await runner.close()


async def test_what_was_changed_is_found_out_when_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run notes what requests were; it compares nothing."""
    compared: list[Any] = []
    compare = assembly.changes_between

    def counted(old: Any, new: Any) -> Any:
        compared.append(new)
        return compare(old, new)

    monkeypatch.setattr(assembly, "changes_between", counted)
    tracing = Tracing()
    await told(tracing, "Hi.", "And now?")
    assert compared == []
    made = tracing.assemblies
    assert [each.written_by("config.system_instruction[0]") for each in made] == ["instructions"] * 3
    count = len(compared)
    assert count
    assert tracing.assemblies[0] is made[0]
    assert len(compared) == count


async def test_a_request_that_was_followed_is_what_its_model_was_asked() -> None:
    """Its steps, one after the other, make it; those of a later call have the history of the former."""
    tracing = Tracing()
    await told(tracing, "Hi.", "And now?")
    for made in tracing.assemblies:
        last = made.steps[-1].name
        assert made.request_after(last).contents == made.request.contents
        assert made.sections
    assert [len(made.request.contents) for made in tracing.assemblies] == [1, 3, 5]


def test_a_snapshot_leaves_the_history_alone() -> None:
    """No entry is copied for it; whoever looks at one of the copy gets their own."""
    request = LlmRequest.empty(None)
    entry = types.Content(role="user", parts=[types.Part(text="Hi.")])
    request.contents = SharedContents([entry])
    kept = snapshot(request)
    assert isinstance(request.contents, SharedContents)
    assert not request.contents.touched
    assert request.contents.plain()[0] is entry
    assert kept.contents == [entry]
    assert kept.contents[0] is not entry
