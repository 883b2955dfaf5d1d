"""What ends the turn of an agent with a model, and what goes on in it."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Chat, agent, approve, collect, context, event, pending, requests_of, story, text

from flowloom import Flow, FunctionTool
from flowloom.testing import call


@pytest.mark.parametrize("below", [[], ["helper"]], ids=["alone", "with a task agent"])
async def test_a_confirmed_result_that_is_not_summed_up_ends_the_turn(below: list[str]) -> None:
    """Also of an agent that could have delegated, and has not."""

    def book(tool_context: Any) -> str:
        tool_context.actions.skip_summarization = True
        return "booked"

    helpers = [agent(name, mode="task") for name in below]
    root = agent("root", call("book"), tools=[FunctionTool(book, require_confirmation=True)], sub_agents=helpers)
    chat = Chat(root)
    [request] = pending(await chat.say("go"))
    assert story(await chat.answer(approve(request))) == ["root: book -> {'result': 'booked'}"]
    assert len(requests_of(root)) == 1


@pytest.mark.parametrize("answer", [text("Hm.", thought=True), "no JSON"], ids=["thoughts", "not of its form"])
async def test_one_step_is_one_model_call_whatever_the_model_says(answer: Any) -> None:
    """Also where a turn would have the model asked again."""
    schema = {"type": "object"} if answer == "no JSON" else None
    root = agent("root", answer, "{}", output_schema=schema)
    await collect(root.flow.run_one_step(context(root, event("user", "go"))))
    assert len(requests_of(root)) == 1


async def test_steps_are_numbered_from_the_first() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    root = agent("root", call("look"), call("look"), "done", tools=[look])
    await Chat(root).say("go")
    assert [each.step for each in requests_of(root)] == [0, 1, 2]


async def test_what_was_confirmed_is_carried_out_by_a_flow_without_a_runner_too() -> None:
    def book() -> str:
        """Book."""
        return "booked"

    root = agent("root", call("book"), "done", tools=[FunctionTool(book, require_confirmation=True)])
    chat = Chat(root)
    [request] = pending(await chat.say("go"))
    answered = context(root, *await chat.stored(), event("user", approve(request)))
    assert story(await collect(root.flow.run(answered))) == ["root: book -> {'result': 'booked'}", "root: done"]


@pytest.mark.parametrize(
    ("first", "follows"),
    [
        (event("clock", "It is noon.", actions={"transfer_to_agent": "other"}), ["other: Here I am."]),
        (event("root", "{}"), []),
    ],
    ids=["a transfer", "the answer"],
)
async def test_what_a_processor_emits_ends_the_step_whatever_it_emits_after_it(first: Any, follows: list[str]) -> None:
    """Not the last event alone counts."""
    flow = Flow().with_processor(lambda ctx, request: [first.model_copy(), event("clock", "Tick.")])
    root = agent(
        "root", "unreachable", output_schema={"type": "object"}, flow=flow, sub_agents=[agent("other", "Here I am.")]
    )
    assert story(await Chat(root).say("go"))[2:] == follows
    assert requests_of(root) == []
