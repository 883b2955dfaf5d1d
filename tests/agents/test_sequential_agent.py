"""Agents one after the other (cases area 20, decision 28)."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Chat, agent, approve, hand_to, named_call, pending, requests_of, result, shown, story

from flowloom import FunctionTool, LlmAgent, LongRunningFunctionTool, SequentialAgent
from flowloom.errors import DuplicateAgentError


def ask() -> None:
    """Ask somebody."""


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_two_children_run_in_order() -> None:
    row = SequentialAgent(name="row", sub_agents=[agent("one", "1"), agent("two", "2")])
    assert story(await Chat(row).say("go")) == ["one: 1", "two: 2"]


async def test_nested_sequences_run_in_flattened_order() -> None:
    inner = SequentialAgent(name="inner", sub_agents=[agent("b", "2"), agent("c", "3")])
    row = SequentialAgent(name="row", sub_agents=[agent("a", "1"), inner, agent("d", "4")])
    assert [e.author for e in await Chat(row).say("go")] == ["a", "b", "c", "d"]


async def test_without_children_nothing_happens() -> None:
    assert await Chat(SequentialAgent(name="row")).say("go") == []


@pytest.mark.parametrize("same", [True, False])
def test_duplicates_among_the_children_are_an_error(same: bool) -> None:
    """Duplicate names / objects at any level | error."""
    one = LlmAgent(name="one")
    other = one if same else LlmAgent(name="one")
    with pytest.raises(DuplicateAgentError, match="`one`"):
        SequentialAgent(name="row", sub_agents=[one, other])


async def test_a_child_sees_what_those_before_it_said() -> None:
    two = agent("two", "2")
    await Chat(SequentialAgent(name="row", sub_agents=[agent("one", "first words"), two])).say("go")
    assert any("first words" in line and "one" in line for line in shown(requests_of(two)[0]))


async def test_a_child_reads_what_those_before_it_wrote() -> None:
    two = agent("two", "2", instruction="Use {draft}.")
    row = SequentialAgent(name="row", sub_agents=[agent("one", "the draft", output_key="draft"), two])
    await Chat(row).say("go")
    assert "Use the draft." in str(requests_of(two)[0].config.system_instruction)


async def test_the_first_error_ends_the_sequence() -> None:
    two = agent("two", "never")
    row = SequentialAgent(name="row", sub_agents=[agent("one", RuntimeError("down")), two])
    with pytest.raises(RuntimeError, match="down"):
        await Chat(row).say("go")
    assert requests_of(two) == []


async def test_every_turn_starts_with_the_first_child() -> None:
    row = SequentialAgent(name="row", sub_agents=[agent("one", "1", "3"), agent("two", "2", "4")])
    chat = Chat(row)
    await chat.say("go")
    assert story(await chat.say("again")) == ["one: 3", "two: 4"]


async def test_decision_28_a_member_that_waits_stops_the_sequence() -> None:
    two = agent("two", "never")
    one = agent("one", named_call("c1", "ask"), tools=[LongRunningFunctionTool(ask)])
    events = await Chat(SequentialAgent(name="row", sub_agents=[one, two])).say("go")
    assert [c.name for c in pending(events)] == ["ask"]
    assert requests_of(two) == []


async def test_decision_28_it_resumes_inside_the_member_that_asked_and_runs_those_that_follow() -> None:
    zero = agent("zero", "0")
    one = agent("one", named_call("c1", "ask"), "asked", tools=[LongRunningFunctionTool(ask)])
    two = agent("two", "2")
    chat = Chat(SequentialAgent(name="row", sub_agents=[zero, one, two]))
    await chat.say("go")
    assert story(await chat.answer(result("c1", "ask", {"answer": "yes"}))) == ["one: asked", "two: 2"]
    assert len(requests_of(zero)) == 1


async def test_decision_28_holds_for_a_person_who_approves() -> None:
    one = agent(
        "one", named_call("c1", "pay", amount=5), "paid it", tools=[FunctionTool(pay, require_confirmation=True)]
    )
    two = agent("two", "2")
    chat = Chat(SequentialAgent(name="row", sub_agents=[agent("zero", "0"), one, two]))
    events = await chat.say("go")
    assert story(events)[-1].startswith("one: adk_request_confirmation")
    [request] = pending(events)
    assert story(await chat.answer(approve(request))) == ["one: pay -> {'result': 'paid 5'}", "one: paid it", "two: 2"]


async def test_decision_28_holds_in_nested_sequences() -> None:
    one = agent("one", named_call("c1", "ask"), "asked", tools=[LongRunningFunctionTool(ask)])
    inner = SequentialAgent(name="inner", sub_agents=[agent("before", "b"), one, agent("after", "a")])
    row = SequentialAgent(name="row", sub_agents=[agent("first", "f"), inner, agent("last", "l")])
    chat = Chat(row)
    await chat.say("go")
    assert story(await chat.answer(result("c1", "ask", {"ok": True}))) == ["one: asked", "after: a", "last: l"]


async def test_decision_28_holds_below_an_agent_that_handed_over_to_the_sequence() -> None:
    one = agent("one", named_call("c1", "ask"), "asked", tools=[LongRunningFunctionTool(ask)])
    row = SequentialAgent(name="row", sub_agents=[one, agent("two", "2")])
    root = agent("root", hand_to("row"), sub_agents=[row])
    chat = Chat(root)
    await chat.say("go")
    assert story(await chat.answer(result("c1", "ask", {"ok": True}))) == ["one: asked", "two: 2"]


async def test_decision_28_a_second_pause_resumes_as_well() -> None:
    tools: list[Any] = [LongRunningFunctionTool(ask)]
    one = agent("one", named_call("c1", "ask"), "one asked", tools=tools)
    two = agent("two", named_call("c2", "ask"), "two asked", tools=tools)
    chat = Chat(SequentialAgent(name="row", sub_agents=[one, two, agent("three", "3")]))
    await chat.say("go")
    second = await chat.answer(result("c1", "ask", {"n": 1}))
    assert [c.id for c in pending(second)] == ["c2"]
    assert story(await chat.answer(result("c2", "ask", {"n": 2}))) == ["two: two asked", "three: 3"]


async def test_a_message_that_answers_nothing_starts_the_sequence_anew() -> None:
    one = agent("one", named_call("c1", "ask"), "never mind", tools=[LongRunningFunctionTool(ask)])
    chat = Chat(SequentialAgent(name="row", sub_agents=[agent("zero", "0", "0 again"), one, agent("two", "2")]))
    await chat.say("go")
    assert story(await chat.say("forget it")) == ["zero: 0 again", "one: never mind", "two: 2"]
