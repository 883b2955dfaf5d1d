"""Tools, and models, that ask a person for input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types

from flowloom import AgentTool, BaseAgent, FunctionTool, LoopAgent, ParallelAgent, SequentialAgent, ToolContext, answers
from flowloom.testing import call
from flowloom.tools.input_request import request_input
from waiting.desk import Desk, World, by_turn, last_text, model_of, results_of, seen_results, seen_text


def booker(world: World, name: str, what: str, **fields: Any) -> BaseAgent:
    return by_turn(name, call("book", what=what), f"{name} booked.", tools=[world.book], **fields)


async def test_a_tool_gets_what_the_person_said(world: World) -> None:
    it = Desk(lambda: booker(world, "root", "car"))
    await it.say("Book.")
    pending = await it.only()
    assert (pending.kind, pending.name, pending.args) == ("input", "book", {"what": "car"})
    assert pending.message == "When do you need the car?"
    await it.restart()
    assert last_text(await it.answer(pending.reply("today"))) == "root booked."
    assert world.ran == ["book car today"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"booked": "car", "when": "today"}]


@pytest.mark.parametrize("message", [lambda part: part, lambda part: [part], answers])
async def test_a_reply_is_a_message_in_every_form(world: World, message: Callable[[types.Part], Any]) -> None:
    """By itself, in a list, or as a content."""
    it = Desk(lambda: booker(world, "root", "car"))
    await it.say("Book.")
    await it.say(message((await it.only()).reply("today")))
    assert world.ran == ["book car today"]


@pytest.mark.parametrize("value", [0, False, "", [], {"a": 1}, {"result": 2}, None, "{not json", 1.5])
async def test_any_json_value_is_an_answer(world: World, value: Any) -> None:
    got: list[Any] = []

    def ask(tool_context: ToolContext) -> str:
        """Ask."""
        got.append(tool_context.request_input("What?"))
        return "ok"

    it = Desk(lambda: by_turn("root", call("ask"), "Done.", tools=[ask]))
    await it.say("Go.")
    await it.answer((await it.only()).reply(value))
    assert got == [value]
    assert await it.waiting() == []


async def test_several_questions_in_a_row(world: World) -> None:
    """Each is asked once; the tool gets the earlier answers first."""

    def trip(tool_context: ToolContext) -> dict[str, Any]:
        """Plan a trip."""
        where = tool_context.request_input("Where?")
        when = tool_context.request_input(f"When to {where}?")
        with_whom = tool_context.request_input(f"With whom to {where} {when}?")
        world.ran.append(f"trip {where} {when} {with_whom}")
        return {"ok": True}

    it = Desk(lambda: by_turn("root", call("trip"), "Done.", tools=[trip]))
    await it.say("Go.")
    asked: list[str] = []
    for answer in ("Rome", "May", "Bob"):
        pending = await it.only()
        asked.append(pending.message)
        await it.restart()
        await it.answer(pending.reply(answer))
    assert asked == ["Where?", "When to Rome?", "With whom to Rome May?"]
    assert world.ran == ["trip Rome May Bob"]
    assert await it.waiting() == []


async def test_an_answer_that_does_not_fit_is_asked_for_again(world: World) -> None:
    """The person is told what was wrong; the tool does not run, and the model is not asked."""

    def ask(tool_context: ToolContext) -> dict[str, Any]:
        """Ask."""
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        answer = tool_context.request_input("How many?", response_schema=schema, payload={"max": 3})
        world.ran.append(f"n {answer['n']}")
        return answer

    it = Desk(lambda: by_turn("root", call("ask"), "Done.", tools=[ask]))
    await it.say("Go.")
    for wrong in ("many", {"n": "x"}, {}):
        pending = await it.only()
        assert pending.payload == {"max": 3}
        assert pending.response_schema is not None
        assert pending.message.startswith("How many?")
        assert await it.answer(pending.reply(wrong))
        assert world.ran == []
        assert len(model_of(it.runner.agent).requests) == 1
    pending = await it.only()
    assert pending.message != "How many?"
    assert pending.message.count("How many?") == 1
    assert pending.message.count("does not fit") == 1, "only the latest misfit is told"
    assert last_text(await it.answer(pending.reply({"n": 2}))) == "Done."
    assert world.ran == ["n 2"]


async def test_a_misfit_beside_answers_that_fit(world: World) -> None:
    def ask(who: str, tool_context: ToolContext) -> dict[str, Any]:
        """Ask."""
        age = tool_context.request_input(f"Age of {who}?", response_schema={"type": "integer"})
        world.ran.append(f"{who} {age}")
        return {"age": age}

    it = Desk(lambda: by_turn("root", [call("ask", who="a"), call("ask", who="b")], "Done.", tools=[ask]))
    await it.say("Go.")
    one, two = await it.waiting()
    await it.answer(one.reply("old"), two.reply(7))
    assert world.ran == ["b 7"]
    await it.answer((await it.only()).reply(8))
    assert world.ran == ["b 7", "a 8"]
    assert await it.waiting() == []


async def test_agents_side_by_side_get_each_what_was_said_to_them() -> None:
    """Though both begin again before either asks for it."""
    asked: list[str] = []
    got: list[Any] = []
    both = asyncio.Barrier(2)

    async def ask(tool_context: ToolContext) -> str:
        """Ask."""
        if len(asked) == 2:
            await asyncio.wait_for(both.wait(), 60)
        asked.append(tool_context.agent_name)
        got.append((tool_context.agent_name, tool_context.request_input("What?")))
        return "ok"

    it = Desk(
        lambda: ParallelAgent(
            name="both", sub_agents=[by_turn(name, call("ask"), "Done.", tools=[ask]) for name in ("a", "b")]
        )
    )
    await it.say("Go.")
    await it.answer(*(each.reply(each.agent) for each in await it.waiting()))
    assert sorted(got) == [("a", "a"), ("b", "b")]


async def test_confirmation_and_input_of_one_tool(world: World) -> None:
    """First the decision, then the question; the decision holds."""
    tool = FunctionTool(world.book, require_confirmation=True)
    it = Desk(lambda: by_turn("root", call("book", what="car"), "Done.", tools=[tool]))
    await it.say("Go.")
    pending = await it.only()
    assert pending.kind == "confirmation"
    await it.answer(pending.approve(edited_args={"what": "bike"}))
    assert world.ran == []
    await it.restart()
    pending = await it.only()
    assert (pending.kind, pending.message) == ("input", "When do you need the bike?")
    assert last_text(await it.answer(pending.reply("today"))) == "Done."
    assert world.ran == ["book bike today"]
    assert await it.waiting() == []


async def test_two_tools_one_that_asks_for_approval_and_one_for_input(world: World) -> None:
    calls = [call("pay", amount=1), call("book", what="car")]
    it = Desk(lambda: by_turn("root", calls, "Some.", "All.", tools=[world.paying, world.book]))
    await it.say("Go.")
    pending = {each.kind: each for each in await it.waiting()}
    await it.answer(pending["input"].reply("today"))
    assert world.ran == ["book car today"]
    await it.answer(pending["confirmation"].approve())
    assert world.ran == ["book car today", "pay 1 bob"]
    assert await it.waiting() == []


async def test_both_answered_in_one_message(world: World) -> None:
    calls = [call("pay", amount=1), call("book", what="car")]
    it = Desk(lambda: by_turn("root", calls, "All.", tools=[world.paying, world.book]))
    await it.say("Go.")
    pending = {each.kind: each for each in await it.waiting()}
    await it.answer(pending["input"].reply("today"), pending["confirmation"].reject("no"))
    assert world.ran == ["book car today"]
    assert await it.waiting() == []


async def test_in_an_agent_tool_in_an_agent_tool(world: World) -> None:
    def root() -> BaseAgent:
        desk = by_turn("desk", call("clerk", request="Go."), "Desk.", tools=[AgentTool(booker(world, "clerk", "car"))])
        return by_turn("root", call("desk", request="Go."), "Done.", tools=[AgentTool(desk)])

    it = Desk(root)
    await it.say("Go.")
    await it.restart()
    assert last_text(await it.answer((await it.only()).reply("today"))) == "Done."
    assert world.ran == ["book car today"]


async def test_in_branches_and_rounds(world: World) -> None:
    def root() -> BaseAgent:
        both = ParallelAgent(name="both", sub_agents=[booker(world, "a", "car"), booker(world, "b", "bike")])
        return SequentialAgent(name="flow", sub_agents=[both, by_turn("after", "After.")])

    it = Desk(root)
    await it.say("Go.")
    pending = {each.agent: each for each in await it.waiting()}
    await it.answer(pending["b"].reply("May"))
    assert last_text(await it.answer(pending["a"].reply("June"))) == "After."
    assert world.ran == ["book bike May", "book car June"]


# -- the model's own question ------------------------------------------------------------------------------------------


def asker(name: str = "root", *after: Any, **fields: Any) -> BaseAgent:
    return by_turn(
        name,
        call("adk_request_input", message="Where to?"),
        *(after or ("Then there.",)),
        tools=[request_input],
        **fields,
    )


async def test_a_model_asks_and_reads_the_answer() -> None:
    it = Desk(asker)
    await it.say("Go.")
    pending = await it.only()
    assert (pending.kind, pending.message, pending.agent) == ("input", "Where to?", "root")
    await it.restart()
    assert last_text(await it.answer(pending.reply("Rome"))) == "Then there."
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "Rome"}]
    assert await it.waiting() == []


async def test_a_model_asks_several_times_and_at_once() -> None:
    def root() -> BaseAgent:
        ask = [call("adk_request_input", message=f"{n}?") for n in (1, 2)]
        return by_turn("root", ask, call("adk_request_input", message="3?"), "Done.", tools=[request_input])

    it = Desk(root)
    await it.say("Go.")
    one, two = await it.waiting()
    await it.answer(one.reply("a"), two.reply("b"))
    assert last_text(await it.answer((await it.only()).reply("c"))) == "Done."
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "a"}, {"result": "b"}, {"result": "c"}]


async def test_two_questions_at_once_answered_one_at_a_time() -> None:
    def root() -> BaseAgent:
        ask = [call("adk_request_input", message=f"{n}?") for n in (1, 2)]
        return by_turn("root", ask, "Done.", "Done.", tools=[request_input])

    it = Desk(root)
    await it.say("Go.")
    one, two = await it.waiting()
    await it.answer(two.reply("b"))
    assert [each.id for each in await it.waiting()] == [one.id]
    assert last_text(await it.answer(one.reply("a"))) == "Done."
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "a"}, {"result": "b"}]


async def test_a_models_question_in_a_sequence_a_branch_and_an_agent_tool() -> None:
    def root() -> BaseAgent:
        tool = by_turn("caller", call("deep", request="Ask."), "Caller.", tools=[AgentTool(asker("deep"))])
        both = ParallelAgent(name="both", sub_agents=[asker("branch"), tool])
        return SequentialAgent(name="flow", sub_agents=[asker("first"), both, by_turn("after", "After.")])

    it = Desk(root)
    await it.say("Go.")
    await it.answer((await it.only()).reply("Rome"))
    pending = {each.agent: each for each in await it.waiting()}
    assert set(pending) == {"branch", "deep"}
    await it.answer(pending["deep"].reply("Paris"))
    await it.restart()
    assert last_text(await it.answer(pending["branch"].reply("Oslo"))) == "After."
    assert results_of(await it.events(), "deep") == [{"result": "Then there."}]


async def test_a_models_question_in_a_loop_goes_on_in_its_round() -> None:
    def root() -> BaseAgent:
        ask = by_turn(
            "ask",
            call("adk_request_input", message="1?"),
            "One.",
            call("adk_request_input", message="2?"),
            "Two.",
            tools=[request_input],
        )
        return LoopAgent(name="rounds", sub_agents=[ask, by_turn("note", "N1.", "N2.")], max_iterations=2)

    it = Desk(root)
    await it.say("Go.")
    for n in (1, 2):
        await it.restart()
        await it.answer((await it.only()).reply(str(n)))
    assert [event.text for event in await it.events() if event.text and event.author != "user"] == [
        "One.",
        "N1.",
        "Two.",
        "N2.",
    ]


async def test_what_a_tool_asks_for_is_never_shown_to_a_model(world: World) -> None:
    it = Desk(lambda: booker(world, "root", "car"))
    await it.say("Book.")
    await it.answer((await it.only()).reply("secret word"))
    for request in model_of(it.runner.agent).requests:
        assert "adk_request_input" not in seen_text(request)
        assert all(
            part.function_call is None or part.function_call.name == "book"
            for c in request.contents
            for part in c.parts or ()
        )
