"""Agents again and again (cases area 20, decisions 28 and 29)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from kit import Chat, agent, call, hand_to, named_call, pending, requests_of, result, said, story

from flowloom import (
    BaseAgent,
    ConfigurationError,
    Event,
    EventActions,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    SequentialAgent,
    ToolContext,
    exit_loop,
)
from flowloom.errors import DuplicateAgentError


class Counter(BaseAgent):
    """Counts its turns; escalates at `stop_at`."""

    stop_at: int | None = None
    turns: list[int] = []  # noqa: RUF012 - pydantic copies it

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        self.turns.append(1)
        actions = EventActions(escalate=True) if len(self.turns) == self.stop_at else EventActions()
        yield Event(author=self.name, content=said(str(len(self.turns))), actions=actions)


async def test_decision_29_none_is_unlimited() -> None:
    """Loop | unbounded | infinite."""
    loop = LoopAgent(name="loop", sub_agents=[Counter(name="a", stop_at=50)])
    assert len(await Chat(loop).say("go")) == 50


async def test_an_endless_loop_is_left_by_the_consumer() -> None:
    counter = Counter(name="a")
    chat = Chat(LoopAgent(name="loop", sub_agents=[counter]))
    stream = chat.runner.run_async(user_id="ann", session_id="s1", new_message="go")
    seen = 0
    async for _ in stream:
        seen += 1
        if seen == 7:
            break
    await stream.aclose()
    assert len(counter.turns) == 7


async def test_decision_29_zero_runs_nothing() -> None:
    counter = Counter(name="a")
    assert await Chat(LoopAgent(name="loop", max_iterations=0, sub_agents=[counter])).say("go") == []
    assert counter.turns == []


def test_decision_29_a_negative_number_is_an_error_that_tells_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"`loop`.*-1"):
        LoopAgent(name="loop", max_iterations=-1, sub_agents=[LlmAgent(name="a")])


async def test_a_loop_without_children_ends() -> None:
    assert await Chat(LoopAgent(name="loop", max_iterations=3)).say("go") == []


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
async def test_one_round_runs_each_child_once(names: list[str]) -> None:
    """Max 1; max 1 with two children | one pass; both once."""
    loop = LoopAgent(name="loop", max_iterations=1, sub_agents=[Counter(name=name) for name in names])
    assert [e.author for e in await Chat(loop).say("go")] == names


async def test_children_run_in_order_in_every_round() -> None:
    loop = LoopAgent(name="loop", max_iterations=2, sub_agents=[Counter(name="a"), Counter(name="b")])
    assert [e.author for e in await Chat(loop).say("go")] == ["a", "b", "a", "b"]


def leave(tool_context: ToolContext) -> str:
    """Leave the loop."""
    tool_context.actions.escalate = True
    return "left"


async def test_a_child_that_escalates_finishes_its_turn_first() -> None:
    """Child escalates without skip | child finishes its summary, second child not run."""
    second = agent("second", "never")
    first = agent("first", call("leave"), "summary", tools=[leave])
    loop = LoopAgent(name="loop", sub_agents=[first, second])
    assert story(await Chat(loop).say("go")) == [
        "first: leave()",
        "first: leave -> {'result': 'left'}",
        "first: summary",
    ]
    assert requests_of(second) == []


async def test_exit_loop_leaves_without_a_summary() -> None:
    """Child escalates with skip | FC, FR only."""
    first = agent("first", call("exit_loop"), tools=[exit_loop])
    loop = LoopAgent(name="loop", sub_agents=[first, agent("second", "never")])
    events = await Chat(loop).say("go")
    assert story(events) == ["first: exit_loop()", "first: exit_loop -> {}"]
    assert events[-1].actions.escalate
    assert events[-1].actions.skip_summarization


async def test_escalation_from_a_nested_sequence_leaves_the_loop() -> None:
    row = SequentialAgent(name="row", sub_agents=[Counter(name="a", stop_at=2), Counter(name="b")])
    loop = LoopAgent(name="loop", sub_agents=[row, Counter(name="c")])
    assert [e.author for e in await Chat(loop).say("go")] == ["a", "b", "c", "a", "b"]


def test_duplicates_among_the_children_are_an_error() -> None:
    with pytest.raises(DuplicateAgentError):
        LoopAgent(name="loop", sub_agents=[Counter(name="a"), Counter(name="a")])


async def test_decision_28_a_loop_that_waits_resumes_in_its_member_and_goes_on() -> None:
    def ask() -> None:
        """Ask."""

    tools: list[Any] = [LongRunningFunctionTool(ask)]
    asking = agent("asking", named_call("c1", "ask"), "asked", "second round", tools=tools)
    loop = LoopAgent(name="loop", max_iterations=2, sub_agents=[Counter(name="a"), asking, Counter(name="z")])
    chat = Chat(loop)
    events = await chat.say("go")
    assert [c.id for c in pending(events)] == ["c1"]
    resumed = await chat.answer(result("c1", "ask", {"ok": True}))
    assert story(resumed)[:2] == ["asking: asked", "z: 1"]
    assert "asking: second round" in story(resumed)


async def test_a_child_error_ends_the_loop() -> None:
    loop = LoopAgent(name="loop", sub_agents=[agent("a", RuntimeError("down"), "never")])
    with pytest.raises(RuntimeError, match="down"):
        await Chat(loop).say("go")


async def test_an_agent_that_was_handed_over_to_leaves_the_loop_around_the_one_that_handed_over() -> None:
    """What escalates is the turn: whoever ends it, the loop does not begin another one."""
    helper = agent("helper", call("exit_loop"), tools=[exit_loop])
    member = agent("member", hand_to("helper"), "again", sub_agents=[helper])
    events = await Chat(LoopAgent(name="loop", sub_agents=[member], max_iterations=3)).say("go")
    assert [event.author for event in events] == ["member", "member", "helper", "helper"]
    assert len(requests_of(member)) == 1


async def test_an_agent_that_escalates_and_hands_over_at_once_leaves_the_loop_behind_the_other() -> None:
    member = agent(
        "member",
        [named_call("a", "exit_loop"), named_call("b", "transfer_to_agent", agent_name="helper")],
        tools=[exit_loop],
        sub_agents=[agent("helper", "done")],
    )
    events = await Chat(LoopAgent(name="loop", sub_agents=[member], max_iterations=3)).say("go")
    assert [event.author for event in events] == ["member", "member", "helper"]
