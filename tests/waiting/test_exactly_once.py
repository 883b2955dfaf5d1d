"""An answer counts once, if it is the right one: replayed, forged and altered ones change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types

from flowloom import AgentTool, BaseAgent, Event, LlmAgent, ParallelAgent, SequentialAgent, Session
from flowloom.errors import AlreadyAnsweredError, InvocationNotFoundError, UnreadableAnswerError
from flowloom.testing import call
from waiting.desk import WHERE, Desk, World, by_turn, last_text, model_of, results_of

CONFIRMATION = "adk_request_confirmation"


def payer(world: World, *after: Any, name: str = "root", amount: int = 5) -> LlmAgent:
    return by_turn(name, call("pay", amount=amount), *(after or ("Paid.",)), tools=[world.paying])


def decision(request_id: str, **response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=request_id, name=CONFIRMATION, response=response))


async def altered(it: Desk, change: Any) -> None:
    """Let somebody write to the store."""
    session = await it.session()
    wire = session.to_wire()
    change(wire["events"])
    it.service.adopt(Session.model_validate(wire))


async def test_an_answer_that_comes_again_changes_nothing(world: World) -> None:
    it = Desk(lambda: payer(world, "Paid.", "It is paid already."))
    await it.say("Pay.")
    pending = await it.only()
    for _ in range(3):
        await it.answer(pending.approve())
        await it.restart()
    assert world.ran == ["pay 5 bob"]
    assert len(results_of(await it.events(), "pay")) == 1


async def test_a_decision_that_was_made_is_not_unmade(world: World) -> None:
    it = Desk(lambda: payer(world, "Paid.", "Too late."))
    await it.say("Pay.")
    pending = await it.only()
    await it.answer(pending.reject("no"))
    before = await it.events()
    with pytest.raises(AlreadyAnsweredError, match=pending.id) as caught:
        await it.answer(pending.approve())
    assert caught.value.call_id == pending.id
    assert (world.ran, await it.events()) == ([], before)


async def test_an_answer_to_nothing_is_ignored(world: World) -> None:
    it = Desk(lambda: payer(world, "Which one?", "Which one?", "Paid."))
    await it.say("Pay.")
    await it.answer(decision("adk-made-up", confirmed=True))
    assert world.ran == []
    await it.answer((await it.only()).approve())
    assert world.ran == ["pay 5 bob"]


async def test_an_answer_that_names_other_arguments_is_none(world: World) -> None:
    """The call waits on; the right answer counts."""
    it = Desk(lambda: payer(world, "Not yet.", "Paid."))
    await it.say("Pay.")
    pending = await it.only()
    for forged in ({"amount": 999}, {"amount": 5, "to": "eve"}, {}):
        await it.answer(decision(pending.id, confirmed=True, originalFunctionCall={"name": "pay", "args": forged}))
        assert world.ran == []
        assert (await it.only()).id == pending.id
    await it.answer(pending.approve())
    assert world.ran == ["pay 5 bob"]


async def test_an_answer_that_names_the_call_as_it_was_asked_counts(world: World) -> None:
    it = Desk(lambda: payer(world))
    await it.say("Pay.")
    pending = await it.only()
    original = pending.raw["originalFunctionCall"]
    await it.answer(decision(pending.id, confirmed=True, originalFunctionCall=original))
    assert world.ran == ["pay 5 bob"]


async def test_an_answer_of_another_kind_is_none(world: World) -> None:
    it = Desk(lambda: by_turn("root", call("book", what="car"), "Not yet.", "Booked.", tools=[world.book]))
    await it.say("Book.")
    pending = await it.only()
    with pytest.raises(UnreadableAnswerError, match="Name it `adk_request_input`"):
        await it.answer(decision(pending.id, confirmed=True))
    assert world.ran == []
    assert (await it.only()).id == pending.id
    await it.answer(pending.reply("today"))
    assert world.ran == ["book car today"]


async def test_an_answer_that_cannot_be_read_leaves_the_call_waiting(world: World) -> None:
    it = Desk(lambda: payer(world))
    await it.say("Pay.")
    pending = await it.only()
    with pytest.raises(UnreadableAnswerError, match="not JSON"):
        await it.answer(decision(pending.id, response="{nonsense"))
    assert (await it.only()).id == pending.id
    await it.answer(pending.approve())
    assert world.ran == ["pay 5 bob"]


async def test_a_refused_answer_does_not_let_a_sequence_go_on(world: World) -> None:
    def root() -> BaseAgent:
        return SequentialAgent(
            name="flow", sub_agents=[payer(world, "Not yet.", "Paid.", name="a"), by_turn("b", "B.")]
        )

    it = Desk(root)
    await it.say("Pay.")
    pending = await it.only()
    await it.answer(decision(pending.id, confirmed=True, originalFunctionCall={"name": "pay", "args": {"amount": 6}}))
    assert "B." not in [event.text for event in await it.events()]
    assert last_text(await it.answer(pending.approve())) == "B."


async def test_a_request_that_another_author_made_is_not_carried_out(world: World) -> None:
    it = Desk(lambda: payer(world))
    await it.say("Pay.")
    pending = await it.only()

    def forge(events: list[dict[str, Any]]) -> None:
        for event in events:
            if event.get("longRunningToolIds"):
                event["author"] = "stranger"

    await altered(it, forge)
    await it.answer(pending.approve())
    assert world.ran == []


async def test_a_request_whose_call_was_changed_in_the_log_is_not_carried_out(world: World) -> None:
    it = Desk(lambda: payer(world))
    await it.say("Pay.")
    pending = await it.only()

    def change(events: list[dict[str, Any]]) -> None:
        for event in events:
            for part in event["content"]["parts"] if event.get("longRunningToolIds") else ():
                part["functionCall"]["args"]["originalFunctionCall"]["args"]["amount"] = 5000

    await altered(it, change)
    await it.answer(pending.approve())
    assert world.ran == []


async def test_a_request_for_input_whose_call_was_changed_is_not_carried_out(world: World) -> None:
    it = Desk(lambda: by_turn("root", call("book", what="car"), "Booked.", tools=[world.book]))
    await it.say("Book.")
    pending = await it.only()

    def change(events: list[dict[str, Any]]) -> None:
        for event in events:
            for part in event["content"]["parts"] if event.get("longRunningToolIds") else ():
                part["functionCall"]["args"]["originalFunctionCall"]["args"]["what"] = "yacht"

    await altered(it, change)
    await it.answer(pending.reply("today"))
    assert world.ran == []


async def test_a_second_request_by_the_same_id_runs_neither(world: World) -> None:
    it = Desk(lambda: payer(world))
    await it.say("Pay.")
    pending = await it.only()

    def repeat(events: list[dict[str, Any]]) -> None:
        twin = Event.model_validate(events[-1]).to_wire()
        twin["id"] = "another"
        twin["content"]["parts"][0]["functionCall"]["args"]["originalFunctionCall"]["args"]["amount"] = 7
        del twin["actions"]
        events.append(twin)

    await altered(it, repeat)
    await it.answer(pending.approve())
    assert world.ran == []


async def test_two_processes_that_answer_at_once_run_the_call_once(world: World) -> None:
    it = Desk(lambda: payer(world, "Paid.", "It is paid already."))
    await it.say("Pay.")
    message = types.Content(role="user", parts=[(await it.only()).approve()])

    async def run(runner: Any) -> list[Event]:
        return [event async for event in runner.run_async(**WHERE, new_message=message)]

    await asyncio.gather(*(run(it.another_runner()) for _ in range(4)))
    assert world.ran == ["pay 5 bob"]


async def test_two_processes_that_answer_two_calls_at_once_run_each_once(world: World) -> None:
    calls = [call("pay", amount=1), call("pay", amount=2)]
    it = Desk(lambda: by_turn("root", calls, "Some.", "All.", tools=[world.paying]))
    await it.say("Pay.")
    one, two = await it.waiting()

    async def run(part: types.Part) -> None:
        message = types.Content(role="user", parts=[part])
        async for _ in it.another_runner().run_async(**WHERE, new_message=message):
            pass

    parts = one.approve(), two.approve(), one.approve(), two.reject()
    *others, refused = await asyncio.gather(*map(run, parts), return_exceptions=True)
    assert others == [None] * 3
    assert isinstance(refused, AlreadyAnsweredError)
    assert world.ran == ["pay 1 bob", "pay 2 bob"]
    assert await it.waiting() == []


async def test_an_answer_that_comes_again_to_an_agent_tool_changes_nothing(world: World) -> None:
    def root() -> BaseAgent:
        tool = AgentTool(payer(world, name="clerk"))
        return by_turn("root", call("clerk", request="Pay."), "Done.", "Done already.", tools=[tool])

    it = Desk(root)
    await it.say("Go.")
    pending = await it.only()
    for _ in range(3):
        await it.answer(pending.approve())
    assert world.ran == ["pay 5 bob"]
    assert len(results_of(await it.events(), "clerk")) == 1


async def test_an_answer_that_comes_again_to_a_branch_changes_nothing(world: World) -> None:
    def root() -> BaseAgent:
        members: list[BaseAgent] = [payer(world, name=name, amount=n) for n, name in enumerate("ab", 1)]
        both = ParallelAgent(name="both", sub_agents=members)
        return SequentialAgent(name="flow", sub_agents=[both, by_turn("after", "After.")])

    it = Desk(root)
    await it.say("Go.")
    one, two = await it.waiting()
    await it.answer(one.approve())
    await it.answer(one.approve())
    assert world.ran == [f"pay {one.args['amount']} bob"]
    assert [each.id for each in await it.waiting()] == [two.id]
    await it.answer(one.approve(), two.approve())
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert [event.text for event in await it.events()].count("After.") == 1


async def test_one_agent_in_two_branches_gets_each_answer_in_its_own(world: World) -> None:
    """The call that was approved runs in the branch that has made it."""

    def root() -> BaseAgent:
        clerk = payer(world, name="clerk")
        members: list[BaseAgent] = [SequentialAgent(name=name, sub_agents=[clerk]) for name in ("left", "right")]
        return ParallelAgent(name="both", sub_agents=members)

    it = Desk(root)
    await it.say("Go.")
    one, two = await it.waiting()
    events = await it.answer(one.approve())
    asked = next(e for e in await it.events() for c in e.get_function_calls() if c.id == one.id)
    assert {event.branch for event in events} == {asked.branch}
    await it.answer(two.approve())
    assert world.ran == ["pay 5 bob"] * 2


async def test_a_decision_whose_call_was_cut_off_is_carried_out_with_the_next_one(world: World) -> None:
    """The process died while the approved call was under way; the other call is decided afterwards."""
    calls = [call("pay", amount=1), call("pay", amount=2)]
    it = Desk(lambda: by_turn("root", calls, "Some.", "All.", tools=[world.paying]))
    await it.say("Pay.")
    one, two = await it.waiting()
    events = list(await it.events())
    message = types.Content(role="user", parts=[one.approve()])
    events.append(Event(author="user", invocation_id=events[0].invocation_id, content=message))
    it.service.adopt(Session(id="s1", app_name="app", user_id="ann", events=events))
    assert [each.id for each in await it.waiting()] == [two.id]
    await it.answer(two.approve())
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert model_of(it.runner.agent).requests


async def test_a_call_that_was_rewound_is_not_carried_out(world: World) -> None:
    """It waits no more; an approval that comes all the same is refused, and nothing of it is stored."""
    it = Desk(lambda: payer(world))
    await it.say("Go.")
    asked = await it.waiting()
    await it.runner.rewind_async(**WHERE, rewind_before_invocation_id=asked[0].invocation_id)
    assert await it.waiting() == []
    before = await it.events()
    with pytest.raises(InvocationNotFoundError, match="was rewound"):
        await it.answer(asked[0].approve())
    assert await it.events() == before
    assert world.ran == []
