"""The metrics of model and tool calls."""

from __future__ import annotations

from typing import Any

import pytest

from flowloom.testing.scripted import call
from telemetry.agents import SSE, agent, answer, context, run, usage
from telemetry.conftest import Recording

TOKENS, MODEL_TIME, TOOL_TIME = (
    "gen_ai.client.token.usage",
    "gen_ai.client.operation.duration",
    "gen_ai.execute_tool.duration",
)


async def test_tokens_are_counted_by_their_kind(recording: Recording) -> None:
    """Thoughts are output; the series are told apart by operation, models and kind."""
    await run(agent([answer("ok", usage_metadata=usage(10, 20, 15), model_version="m-001")]))
    points = {point.attributes["gen_ai.token.type"]: point for point in recording.points(TOKENS)}
    assert {kind: point.sum for kind, point in points.items()} == {"input": 10, "output": 35}
    assert dict(points["input"].attributes) == {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "m-001",
        "gen_ai.token.type": "input",
    }
    assert tuple(points["input"].explicit_bounds)[:4] == (1, 4, 16, 64)


async def test_a_model_without_usage_counts_no_tokens(recording: Recording) -> None:
    """Nothing is guessed."""
    await run(agent(["ok"]))
    assert recording.points(TOKENS) == []


async def test_model_calls_are_timed(recording: Recording) -> None:
    """One measurement per call; with the error's type when it failed."""
    await run(agent(["ok"]))
    with pytest.raises(ValueError, match="x"):
        await run(agent([ValueError("x")]))
    points = recording.points(MODEL_TIME)
    assert {point.attributes.get("error.type"): point.count for point in points} == {None: 1, "ValueError": 1}
    assert tuple(points[0].explicit_bounds)[:3] == (0.01, 0.02, 0.04)


async def test_a_call_that_was_cut_off_counts_its_tokens_but_not_its_time(recording: Recording) -> None:
    """A consumer that had enough tells nothing about how long such a call takes."""
    root = agent([[answer("a", partial=True, usage_metadata=usage(3, 1)), answer("ab")]])
    events = root.run_async(context(root, run_config=SSE))
    await events.__anext__()
    await events.aclose()
    assert recording.points(MODEL_TIME) == []
    assert sum(point.sum for point in recording.points(TOKENS)) == 4


async def test_tool_calls_are_timed(recording: Recording) -> None:
    """One measurement per call; with the error's type when it failed."""

    def fine() -> str:
        return "ok"

    async def bad() -> Any:
        raise LookupError

    await run(agent([[call("fine"), call("bad")], "done"], tools=[fine, bad]))
    points = {point.attributes["gen_ai.tool.name"]: point for point in recording.points(TOOL_TIME)}
    assert dict(points["fine"].attributes) == {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "fine"}
    assert points["bad"].attributes["error.type"] == "LookupError"
