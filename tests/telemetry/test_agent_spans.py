"""The span of an agent's turn, and what hangs from it (spec §12.9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from flowloom import (
    AgentTool,
    BaseAgent,
    Context,
    Event,
    InMemoryRunner,
    InvocationContext,
    Limits,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    RunHandle,
    SequentialAgent,
    WorkflowAgent,
)
from flowloom.agents import FinishedMember
from flowloom.testing.scripted import call
from telemetry.agents import agent, answer, context, run
from telemetry.conftest import Recording

MODEL = "generate_content scripted"


async def test_an_agents_span_names_it_and_its_conversation(recording: Recording) -> None:
    """All attributes of a turn that succeeds."""
    events = await run(agent(["ok"], description="answers"))
    span = recording.span("invoke_agent bot")
    assert span.status.status_code is StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "bot",
        "gen_ai.agent.description": "answers",
        "gen_ai.conversation.id": "s",
        "gcp.vertex.agent.invocation_id": events[0].invocation_id,
    }


async def test_an_agent_that_raises_fails_its_span(recording: Recording) -> None:
    """Message and type of the error are on the agent's span."""
    with pytest.raises(ValueError, match="broken"):
        await run(agent([ValueError("broken")]))
    span = recording.span("invoke_agent bot")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "broken"
    assert (span.attributes or {})["error.type"] == "ValueError"


async def test_an_agent_whose_last_event_is_an_error_fails_its_span(recording: Recording) -> None:
    """Nothing was raised, and yet the turn came to nothing."""
    await run(agent([LlmResponse(error_code="SAFETY", error_message="blocked")]))
    span = recording.span("invoke_agent bot")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "SAFETY"


async def test_an_agent_in_which_the_run_came_to_its_limit_fails_its_span(recording: Recording) -> None:
    """Though nothing was raised: the run is to stop there."""

    def look() -> str:
        return "seen"

    await run(
        agent([call("look"), "done"], tools=[look]), config=RunConfig(limits=Limits(model_calls=1, on_limit="stop"))
    )
    assert (recording.span("invoke_agent bot").attributes or {})["error.type"] == "LlmCallsLimitExceededError"


async def test_a_turn_of_two_model_calls_and_a_tool_is_one_tree(recording: Recording) -> None:
    """The agent's span holds the calls side by side."""

    def look() -> str:
        return "seen"

    await run(agent([call("look"), "done"], tools=[look]))
    assert recording.tree == [
        (None, "invoke_agent bot"),
        ("invoke_agent bot", MODEL),
        ("invoke_agent bot", "execute_tool look"),
        ("invoke_agent bot", MODEL),
    ]


async def test_the_callers_own_span_is_the_root(recording: Recording) -> None:
    """A run within a span of the program's is a child of that span."""
    with trace.get_tracer("app").start_as_current_span("request"):
        await run(agent(["ok"]))
    assert recording.tree[:2] == [(None, "request"), ("request", "invoke_agent bot")]


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
async def test_members_are_children_of_the_agent_that_runs_them(recording: Recording, kind: Any) -> None:
    """A sequence, a loop, and agents side by side."""
    fields: dict[str, Any] = {"max_iterations": 1} if kind is LoopAgent else {}
    await run(kind(name="all", sub_agents=[agent(["1"], "a"), agent(["2"], "b")], **fields))
    assert sorted(recording.tree, key=str) == sorted(
        [
            (None, "invoke_agent all"),
            ("invoke_agent all", "invoke_agent a"),
            ("invoke_agent a", MODEL),
            ("invoke_agent all", "invoke_agent b"),
            ("invoke_agent b", MODEL),
        ],
        key=str,
    )


async def test_an_agent_that_was_handed_over_to_is_a_child_of_the_one_that_did(recording: Recording) -> None:
    """The span of the first is open until the second is done."""
    second = agent(["ok"], "second")
    await run(agent([call("transfer_to_agent", agent_name="second")], "first", sub_agents=[second]))
    assert recording.tree == [
        (None, "invoke_agent first"),
        ("invoke_agent first", MODEL),
        ("invoke_agent first", "execute_tool transfer_to_agent"),
        ("invoke_agent first", "invoke_agent second"),
        ("invoke_agent second", MODEL),
    ]
    first, second_span = recording.span("invoke_agent first"), recording.span("invoke_agent second")
    assert (first.end_time or 0) >= (second_span.end_time or 0)


async def test_an_agent_as_a_tool_is_a_child_of_the_tools_span(recording: Recording) -> None:
    """It runs within the call, and the call within the agent."""
    helper = agent(["helped"], "helper")
    await run(agent([call("helper", request="x"), "done"], tools=[AgentTool(helper)]))
    assert recording.tree == [
        (None, "invoke_agent bot"),
        ("invoke_agent bot", MODEL),
        ("invoke_agent bot", "execute_tool helper"),
        ("execute_tool helper", "invoke_agent helper"),
        ("invoke_agent helper", MODEL),
        ("invoke_agent bot", MODEL),
    ]


async def test_a_coordinators_task_agent_is_its_child(recording: Recording) -> None:
    """The call of a single-turn agent ends with its answer; the agent runs in it."""
    child = agent(["42"], "child", mode="single_turn")
    await run(agent([call("child", request="x"), "done"], sub_agents=[child]))
    assert ("execute_tool child", "invoke_agent child") in recording.tree
    tool = recording.span("execute_tool child")
    assert "gcp.vertex.agent.event_id" in (tool.attributes or {})


class _Custom(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        with trace.get_tracer("mine").start_as_current_span("phase"):
            events = [event async for event in self.sub_agents[0].run_async(ctx)]
        for event in events:
            yield event


async def test_spans_of_a_custom_agent_lie_within_its_own(recording: Recording) -> None:
    """What it opens itself is a child of its span, and the agents it then runs are children of that."""
    await run(_Custom(name="custom", sub_agents=[agent(["ok"])]))
    assert recording.tree == [
        (None, "invoke_agent custom"),
        ("invoke_agent custom", "phase"),
        ("phase", "invoke_agent bot"),
        ("invoke_agent bot", MODEL),
    ]


async def test_a_callback_that_answers_for_the_agent_is_within_its_span(recording: Recording) -> None:
    """There is a turn, with nothing in it."""

    def answers(callback_context: Context) -> types.Content:
        return types.Content(role="model", parts=[types.Part(text="no")])

    await run(agent([], before_agent_callback=answers))
    assert recording.names == ["invoke_agent bot"]


async def test_a_callback_that_raises_ends_the_agents_span(recording: Recording) -> None:
    """Before and after the turn alike."""

    def fail(**_: Any) -> None:
        raise LookupError("callback")

    for name, answers in (("before_agent_callback", []), ("after_agent_callback", ["ok"])):
        with pytest.raises(LookupError):
            await run(agent(answers, name, **{name: fail}))
        assert recording.span(f"invoke_agent {name}").status.status_code is StatusCode.ERROR


async def test_a_context_can_be_run_again(recording: Recording) -> None:
    """After the turn the context is as it was: the next turn is no child of the first."""
    root = agent(["one", "two"])
    ctx = context(root)
    for _ in range(2):
        assert [event async for event in root.run_async(ctx)]
        assert ctx.agent_span is None
    assert [parent for parent, name in recording.tree if name == "invoke_agent bot"] == [None, None]


async def test_a_flow_without_its_agent_has_the_spans_of_its_calls(recording: Recording) -> None:
    """`flow.run` has no agent's turn around it."""
    root = agent([answer("ok")])
    assert [event async for event in root.flow.run(context(root))]
    assert recording.tree == [(None, MODEL)]


async def test_the_span_of_a_workflow_of_ones_own_is_around_those_of_its_members(recording: Recording) -> None:
    """Of one member as of several at once."""

    class Vote(WorkflowAgent):
        def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Any:
            if latest is None:
                return self.sub_agents[:2]
            return self.sub_agents[2] if latest.index < 2 else None

    await run(Vote(name="vote", sub_agents=[agent(["ok"], name=name) for name in ("a", "b", "count")]))
    spans = [recording.span(f"invoke_agent {name}") for name in ("a", "b", "count")]
    assert [recording.parent(span) for span in spans] == ["invoke_agent vote"] * 3


async def test_an_agent_that_a_resumed_run_goes_on_with_has_a_span(recording: Recording) -> None:
    """One for its part of the run, from which what it does hangs."""
    runs: list[RunHandle] = []

    def look() -> str:
        runs[0].pause()
        return "seen"

    runner = InMemoryRunner(agent([call("look"), "on"], tools=[look]))
    where: Any = {"user_id": "u", "session_id": "s"}
    runs.append(runner.start(**where, new_message="go"))
    paused = await runs[0].result()
    before = len(recording.tree)
    await runner.run_to_result(**where, invocation_id=paused.invocation_id)
    assert recording.tree[before:] == [(None, "invoke_agent bot"), ("invoke_agent bot", MODEL)]
