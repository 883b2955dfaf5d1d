"""What follows from a decision: each is carried out once, the flow's own tools run too, and the model is told all."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, approve, collect, context, named_call, pending, story
from processors.test_confirmation import asks, decides, fresh, payer, ran
from pydantic import BaseModel

from flowloom import (
    AgentTool,
    BaseTool,
    Event,
    FunctionTool,
    LlmRequest,
    LongRunningFunctionTool,
    ToolConfirmation,
    ToolContext,
)
from flowloom.processors.confirmation import confirmation
from flowloom.testing import call
from waiting.desk import Desk, World, by_turn, last_text, model_of, results_of, seen_text

__all__ = ["fresh"]  # a fixture


async def test_a_decision_is_carried_out_once_in_a_run_and_a_later_one_by_itself() -> None:
    """Also while the results of the first are not in the log."""
    root = payer()
    ctx = context(root, asks("r1", "c1", 1), asks("r2", "c2", 2), decides("r1"))
    ctx.tools = root.tools
    for message, amounts in (("m1", [1]), ("m2", [1, 2])):
        ctx.session.events[-1].id = message
        made = confirmation(ctx, LlmRequest.empty(None))
        assert made is not None
        results = await collect(made)
        assert [len(event.get_function_responses()) for event in results] == [1]
        assert confirmation(ctx, LlmRequest.empty(None)) is None
        ctx.session.events += results
        assert ran == amounts
        ctx.session.events.append(decides("r2"))


async def test_an_agent_as_a_tool_carries_out_a_decision_while_it_waits_for_another() -> None:
    noted: list[str] = []

    def note(text: str) -> None:
        """Note."""
        noted.append(text)

    tool = FunctionTool(note, require_confirmation=True)
    both = [named_call("c2", "note", text="one"), named_call("c3", "note", text="two")]
    helper = agent("helper", both, "so far", "helped", tools=[tool])
    chat = Chat(agent("root", named_call("c1", "helper", request="x"), "done", tools=[AgentTool(helper)]))
    first, second = pending(await chat.say("go"))
    await chat.answer(approve(first))
    assert noted == ["one"]
    assert story(await chat.answer(approve(second)))[-1] == "root: done"
    assert noted == ["one", "two"]


async def test_a_message_that_decides_nothing_leaves_the_log_as_it_is() -> None:
    """An answer to a request of another agent, of one that is resumed as well."""
    root = payer()
    ctx = context(root, asks("r1", "c1", 1, author="other"), decides("r1"))
    assert (await root.flow.assemble(ctx)).events == []
    ctx.resumed = True
    assert (await root.flow.assemble(ctx)).events == []


def ask_first(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any] | None:
    """A callback that has a person decide about every call."""
    if tool_context.tool_confirmation is not None:
        return None
    tool_context.request_confirmation(hint="May it?")
    return {"status": "asked"}


class Answer(BaseModel):
    n: int


async def test_a_handover_that_a_person_had_to_approve_is_made() -> None:
    """The tool of the flow is there although the agent has none of its own."""
    it = Desk(
        lambda: by_turn(
            "root",
            call("transfer_to_agent", agent_name="clerk"),
            sub_agents=[by_turn("clerk", "Here.", "Here.")],
            before_tool_callback=ask_first,
        )
    )
    await it.say("Go.")
    assert last_text(await it.answer((await it.only()).approve())) == "Here."


@pytest.mark.parametrize("name", ["clerk", "nobody"])
async def test_an_approved_call_that_hands_over_reaches_only_who_is_there(name: str) -> None:
    def hand_over(tool_context: ToolContext) -> str:
        """Hand over."""
        tool_context.actions.transfer_to_agent = name
        return "handed over"

    tool, clerk = FunctionTool(hand_over, require_confirmation=True), by_turn("clerk", "Here.", "Here.")
    it = Desk(lambda: by_turn("root", call("hand_over"), "Still me.", tools=[tool], sub_agents=[clerk]))
    await it.say("Go.")
    events = await it.answer((await it.only()).approve())
    assert last_text(events) == ("Here." if name == "clerk" else "Still me.")


async def test_changed_arguments_that_json_has_no_words_for_reach_the_tool_and_the_model_as_text(world: World) -> None:
    """They come of a program that decides, not of a person."""

    def book(when: Any) -> str:
        """Book."""
        world.ran.append(f"book {when}")
        return "booked"

    edited = ToolConfirmation(confirmed=True, edited_args={"when": date(2030, 5, 1)})
    tool = FunctionTool(book, require_confirmation=True)
    it = Desk(lambda: by_turn("root", call("book", when="x"), "Done.", tools=[tool]), confirm=lambda _: edited)
    await it.say("Go.")
    assert world.ran == ["book 2030-05-01"]
    assert 'It was called with {"when": "2030-05-01"}.' in seen_text(model_of(it.runner.agent).requests[-1])


@pytest.mark.parametrize("name", ["clerk", "nobody"])
async def test_a_person_can_change_to_whom_is_handed_over_but_only_to_who_is_there(name: str) -> None:
    it = Desk(
        lambda: by_turn(
            "root",
            call("transfer_to_agent", agent_name="other"),
            "Nobody there.",
            sub_agents=[by_turn("clerk", "Here.", "Here."), by_turn("other", "Other.", "Other.")],
            before_tool_callback=ask_first,
        )
    )
    await it.say("Go.")
    events = await it.answer((await it.only()).approve(edited_args={"agent_name": name}))
    assert last_text(events) == ("Here." if name == "clerk" else "Nobody there.")


async def test_a_structured_answer_that_a_person_had_to_approve_is_the_answer(world: World) -> None:
    """It comes by the tool of the flow, beside tools of the agent's own."""
    it = Desk(
        lambda: by_turn(
            "root",
            call("set_model_response", n=7),
            tools=[world.look],
            output_schema=Answer,
            output_key="answer",
            before_tool_callback=ask_first,
        )
    )
    await it.say("Go.")
    await it.answer((await it.only()).approve())
    assert (await it.session()).state["answer"] == {"n": 7}


async def test_what_a_person_has_changed_is_told_call_by_call_in_the_words_of_json(world: World) -> None:
    """Also what JSON has no words for; and nothing of the calls that run as they were."""
    calls = [call("pay", amount=n) for n in (1, 2, 3, 4)]
    it = Desk(lambda: by_turn("root", calls, "All.", tools=[world.paying]))
    await it.say("Pay.")
    one, two, three, four = await it.waiting()
    events = await it.answer(
        one.approve(edited_args={"amount": 7, "to": "Zoë"}),
        two.approve(),
        three.reject("no"),
        four.approve(edited_args={}),
    )
    assert world.ran == ["pay 7 Zoë", "pay 2 bob"]
    request = model_of(it.runner.agent).requests[-1]
    assert seen_text(request).split("\n")[-2:] == [
        'A person changed the arguments of `pay` before it ran. It was called with {"amount": 7, "to": "Zoë"}.',
        "A person changed the arguments of `pay` before it ran. It was called with {}.",
    ]
    last = request.contents[-1]
    assert [part.function_response is None for part in last.parts or ()] == [False] * 4 + [True] * 2
    assert {event.content.role for event in events[:1] if event.content} == {last.role} == {"user"}


@pytest.mark.parametrize("approved", [("a",), ("b",), ("a", "b")])
async def test_a_long_running_call_that_begins_is_told_beside_the_results_of_others(
    world: World, approved: tuple[str, ...]
) -> None:
    """One event says that it has begun, and one has the result."""
    tools = [LongRunningFunctionTool(world.order, require_confirmation=True), world.paying]
    it = Desk(lambda: by_turn("root", [call("order", what="a"), call("pay", amount=1)], "All.", tools=tools))
    await it.say("Go.")
    order, pay = [each for each in await it.waiting() if each.kind == "confirmation"]
    events = await it.answer(*(each.approve() for each, name in ((order, "a"), (pay, "b")) if name in approved))
    begun = [event for event in events if event.long_running_tool_ids]
    assert [(answer.name, answer.response) for event in begun for answer in event.get_function_responses()] == (
        [("order", {"status": "pending"})] if "a" in approved else []
    )
    assert [event.content.role for event in begun if event.content] == ["user"] * len(begun)
    assert len(results_of([event for event in events if event not in begun], "pay")) == ("b" in approved)
    waiting = [each.kind for each in await it.waiting()]
    assert sorted(waiting) == {"a": ["confirmation", "tool"], "b": ["confirmation"], "ab": ["tool"]}["".join(approved)]


async def test_an_answer_that_does_not_fit_is_asked_for_again_once_in_a_run_that_is_resumed(world: World) -> None:
    root = by_turn("root", "no number", '{"n": 1}', output_schema=Answer)
    it = Desk(lambda: root)
    session = await it.service.create_session(app_name="app", user_id="ann", session_id="s1")
    said = Event(author="user", invocation_id="e-1", content=types.Content(role="user", parts=[types.Part(text="Go.")]))
    await it.service.append_event(session, said)
    events = await it.say(invocation_id="e-1")
    assert [event.content and event.content.role for event in events] == ["model", "user", "model"]
