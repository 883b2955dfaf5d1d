"""Agents that are shown their current turn only, and answers that come when other turns have come between."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Chat, agent, approve, named_call, pending, requests_of, result, shown, text

from flowloom import FunctionTool, LongRunningFunctionTool, pending_calls
from flowloom.testing import call
from flowloom.tools.input_request import request_input


def order(what: str) -> None:
    """Order something."""


def pay(amount: int) -> dict[str, Any]:
    """Pay."""
    return {"paid": amount}


def shop(*answers: Any) -> Any:
    tools = [LongRunningFunctionTool(order), FunctionTool(pay, require_confirmation=True)]
    return agent("shop", *answers, tools=tools, include_contents="none")


@pytest.mark.parametrize("between", [0, 1, 2])
async def test_the_turn_that_opened_a_call_is_shown_with_its_late_answer(between: int) -> None:
    """The model reads what it had called and for whom, with the answer, and nothing of other turns."""
    root = shop(call("order", what="tea"), *["hello"] * between, "it is here", "again")
    chat = Chat(root)
    [waiting] = pending(await chat.say("tea please"))
    for _ in range(between):
        await chat.say("hi")
    await chat.answer(result(waiting.id, "order", {"state": "delivered"}))
    told = ["user: tea please", "model: order()", "user: order -> {'state': 'delivered'}"]
    assert shown(requests_of(root)[-1]) == told
    await chat.answer(result(waiting.id, "order", {"state": "returned"}))
    last = shown(requests_of(root)[-1])
    assert last[:2] == told[:2]
    assert "user: order -> {'state': 'returned'}" in last
    assert "user: hi" not in last


async def test_the_turn_goes_on_with_its_tools() -> None:
    """Further steps of the answered turn see all of it, and the next message begins a turn of its own."""
    root = shop(call("order", what="tea"), "hello", call("order", what="milk"), "fine")
    chat = Chat(root)
    [waiting] = pending(await chat.say("tea please"))
    await chat.say("hi")
    [second] = pending(await chat.answer(result(waiting.id, "order", {"state": "sold out"})))
    await chat.answer(result(second.id, "order", {"state": "on its way"}))
    assert shown(requests_of(root)[-1]) == [
        "user: tea please",
        "model: order()",
        "user: order -> {'state': 'sold out'}",
        "model: order()",
        "user: order -> {'state': 'on its way'}",
    ]


async def test_a_late_decision_shows_the_turn_of_its_call() -> None:
    """The result of a call that a person has approved stands in the turn that made it."""
    root = shop(call("pay", amount=7), "hello", "paid")
    chat = Chat(root)
    [request] = pending(await chat.say("pay them"))
    await chat.say("hi")
    await chat.answer(approve(request))
    assert shown(requests_of(root)[-1]) == ["user: pay them", "model: pay()", "user: pay -> {'paid': 7}"]


async def test_words_beside_a_late_answer_are_shown_after_it() -> None:
    """A message that answers and says more shows the turn of the call, the answer and the words."""
    root = shop(call("order", what="tea"), "hello", "thanks")
    chat = Chat(root)
    [waiting] = pending(await chat.say("tea please"))
    await chat.say("hi")
    await chat.answer(result(waiting.id, "order", {"state": "delivered"}), text("is it hot?"))
    last = shown(requests_of(root)[-1])
    assert last[:2] == ["user: tea please", "model: order()"]
    assert {"user: order -> {'state': 'delivered'}", "user: is it hot?"} <= set(last)
    assert "user: hi" not in last


async def test_each_of_several_late_answers_is_shown_with_its_own_turn() -> None:
    """One message that answers calls of two turns goes on with both, one after the other."""
    calls = named_call("a", "order", what="tea"), named_call("b", "order", what="milk")
    root = shop(*calls, "hello", "tea is here", "milk is here")
    chat = Chat(root)
    for message in ("tea please", "milk please", "hi"):
        await chat.say(message)
    await chat.answer(result("a", "order", {"state": "here"}), result("b", "order", {"state": "gone"}))
    assert [shown(request) for request in requests_of(root)[-2:]] == [
        ["user: tea please", "model: order()", "user: order -> {'state': 'here'}"],
        ["user: milk please", "model: order()", "user: order -> {'state': 'gone'}"],
    ]


async def test_a_delegated_agent_is_shown_its_call_with_the_answer() -> None:
    """A `single_turn` agent sees its own scope: the task, what it called, and the late answer."""
    helper = agent(
        "helper", call("order", what="tea"), "it is here", tools=[LongRunningFunctionTool(order)], mode="single_turn"
    )
    chat = Chat(agent("root", call("helper", request="tea"), "hello", "done", sub_agents=[helper]))
    [waiting] = pending(await chat.say("tea please"))
    await chat.say("hi")
    await chat.answer(result(waiting.id, "order", {"state": "delivered"}))
    last = shown(requests_of(helper)[-1])
    assert last[-2:] == ["model: order()", "user: order -> {'state': 'delivered'}"]
    assert "user: hi" not in last


async def test_a_late_answer_to_a_question_is_shown_with_the_turn_that_asked() -> None:
    """What a model has asked its user is a call like any other, whose turn it sees with the answer."""
    root = agent("shop", call("adk_request_input", message="size?"), "hello", "thanks", tools=[request_input])
    root.include_contents = "none"
    chat = Chat(root)
    await chat.say("a shirt please")
    [asked] = pending_calls(await chat.stored())
    await chat.say("hi")
    await chat.answer(asked.reply("L"))
    told = ["user: a shirt please", "model: adk_request_input()", "user: adk_request_input -> {'result': 'L'}"]
    assert shown(requests_of(root)[-1]) == told


@pytest.mark.parametrize("include", ["default", "none"])
async def test_a_question_of_a_task_is_answered_in_the_task(include: Any) -> None:
    """An agent in mode `task` sees the task, its question and the late answer, and finishes; the caller goes on."""
    asking = call("adk_request_input", message="size?"), "which colour?", call("finish_task", result="L")
    helper = agent("helper", *asking, tools=[request_input], mode="task", include_contents=include)
    chat = Chat(agent("root", call("helper", request="a shirt"), "done", sub_agents=[helper]))
    await chat.say("a shirt please")
    [asked] = pending_calls(await chat.stored())
    await chat.say("hi")
    events = await chat.answer(asked.reply("L"))
    assert shown(requests_of(helper)[-1])[-2:] == [
        "model: adk_request_input()",
        "user: adk_request_input -> {'result': 'L'}",
    ]
    assert [each.text for each in events if each.text] == ["done"]
