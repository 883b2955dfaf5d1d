"""Calls that wait in agents that were handed over to, beside delegates, and in several places at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowloom import (
    AgentTool,
    BaseAgent,
    BaseTool,
    FunctionTool,
    LongRunningFunctionTool,
    ParallelAgent,
    SequentialAgent,
    Session,
    ToolContext,
)
from flowloom.testing import call
from waiting.desk import Desk, World, by_turn, last_text, model_of, seen_results
from waiting.office import HAND_TO, approve_all, payer


def handing(world: World, name: str = "desk") -> BaseAgent:
    clerk = payer(world, "clerk", 5, "It is paid.")
    return by_turn(
        name,
        call("look", what=name),
        call(HAND_TO, agent_name="clerk"),
        "unreachable",
        tools=[world.look],
        sub_agents=[clerk],
    )


async def test_in_an_agent_that_a_member_of_a_sequence_has_handed_over_to(world: World, office: Any) -> None:
    it = office(lambda: SequentialAgent(name="flow", sub_agents=[handing(world), by_turn("after", "After.")]))
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "After."
    assert world.ran == ["look desk", "pay 5 bob"]
    assert "unreachable" not in [event.text for event in await it.events()]


async def test_in_an_agent_that_a_branch_has_handed_over_to(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        both = ParallelAgent(name="both", sub_agents=[handing(world), payer(world, "other", 1)])
        return SequentialAgent(name="flow", sub_agents=[both, by_turn("after", "After.")])

    it = office(root)
    await it.say("Go.")
    pending = {each.agent: each for each in await it.waiting()}
    await it.answer(pending["other"].approve())
    assert world.ran == ["look desk", "pay 1 bob"]
    assert last_text(await it.answer(pending["clerk"].approve())) == "After."
    assert world.ran == ["look desk", "pay 1 bob", "pay 5 bob"]


async def test_in_a_sequence_that_a_member_of_a_sequence_has_handed_over_to(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        inner = SequentialAgent(name="inner", sub_agents=[payer(world, "one", 1), payer(world, "two", 2)])
        desk = by_turn("desk", call(HAND_TO, agent_name="inner"), "unreachable", sub_agents=[inner])
        return SequentialAgent(name="flow", sub_agents=[desk, by_turn("after", "After.")])

    it = office(root)
    await it.say("Go.")
    assert [event.text for event in await approve_all(it) if event.text] == ["one paid."]
    assert [event.text for event in await approve_all(it) if event.text] == ["two paid.", "After."]
    assert world.ran == ["pay 1 bob", "pay 2 bob"]


async def test_a_delegate_that_speaks_while_a_call_of_it_waits_has_not_answered_yet(world: World, office: Any) -> None:
    """Its caller goes on when all that it asked for is decided."""

    def root() -> BaseAgent:
        calls = [call("pay", amount=1), call("pay", amount=2)]
        clerk = by_turn("clerk", calls, "Some.", "All.", mode="single_turn", tools=[world.paying])
        return by_turn("root", call("clerk", request="Pay."), "Done.", sub_agents=[clerk])

    it = office(root)
    await it.say("Go.")
    one, two = await it.waiting()
    said = await it.answer(one.approve())
    assert last_text(said) == "Some."
    assert all(event.content is None or event.content.parts for event in said)
    assert [each.id for each in await it.waiting()] == [two.id]
    assert last_text(await it.answer(two.approve())) == "Done."
    assert world.ran == ["pay 1 bob", "pay 2 bob"]


async def test_a_call_beside_a_delegate_is_decided_while_that_waits(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 2, mode="single_turn")
        calls = [call("pay", amount=1), call("clerk", request="Pay.")]
        return by_turn("root", calls, "Done.", tools=[world.paying], sub_agents=[clerk])

    it = office(root)
    await it.say("Go.")
    pending = {each.agent: each for each in await it.waiting()}
    await it.answer(pending["root"].approve())
    assert world.ran == ["pay 1 bob"]
    assert [each.agent for each in await it.waiting()] == ["clerk"]
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["pay 1 bob", "pay 2 bob"]


async def test_a_call_beside_a_task_is_decided_while_that_asks_the_user(world: World, office: Any) -> None:
    """The decision is for the caller, the user's words are for the task."""

    def root() -> BaseAgent:
        clerk = by_turn("clerk", "Which one?", call("finish_task", result="the red one"), mode="task")
        calls = [call("pay", amount=1), call("clerk", request="Choose.")]
        return by_turn("root", calls, "Done.", tools=[world.paying], sub_agents=[clerk])

    it = office(root)
    assert last_text(await it.say("Go.")) == "Which one?"
    [request] = await it.waiting()
    await it.answer(request.approve())
    assert world.ran == ["pay 1 bob"]
    assert last_text(await it.say("The red one.")) == "Done."
    assert world.ran == ["pay 1 bob"]


async def test_one_message_decides_about_calls_of_several_agents(world: World, office: Any) -> None:
    """Each agent goes on with its own."""

    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 2)
        answers = call("pay", amount=1), call(HAND_TO, agent_name="clerk"), "Root paid."
        return by_turn("root", *answers, tools=[world.paying], sub_agents=[clerk])

    it = office(root)
    await it.say("Go.")
    await it.say("Hand over.")
    assert {each.agent for each in await it.waiting()} == {"root", "clerk"}
    await approve_all(it)
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert await it.waiting() == []


async def test_results_for_several_branches_in_one_message(world: World, office: Any) -> None:
    """Each branch sees its own."""

    def root() -> BaseAgent:
        members: list[BaseAgent] = [
            by_turn(f"m{n}", call("order", what=str(n)), f"M{n}.", tools=[world.ordering]) for n in (1, 2)
        ]
        return SequentialAgent(
            name="flow", sub_agents=[ParallelAgent(name="both", sub_agents=members), by_turn("z", "Z.")]
        )

    it = office(root)
    await it.say("Go.")
    assert last_text(await it.answer(*(each.reply(each.args["what"]) for each in await it.waiting()))) == "Z."
    for name in ("m1", "m2"):
        assert seen_results(model_of(it.runner.agent, name).requests[-1]) == [{"result": name[1]}]


async def test_an_answer_to_an_agent_that_has_handed_over_since(world: World, office: Any) -> None:
    """It goes on with it, and not the one that it handed over to."""

    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 2)
        answers = call("pay", amount=1), call(HAND_TO, agent_name="clerk"), "Desk paid."
        desk = by_turn("desk", *answers, tools=[world.paying], sub_agents=[clerk])
        return SequentialAgent(name="flow", sub_agents=[desk, by_turn("after", "After.")])

    it = office(root)
    await it.say("Go.")
    first = await it.only()
    forged = {"confirmed": True, "originalFunctionCall": {"name": "pay", "args": {}}}
    part = first.approve()
    assert part.function_response is not None
    part.function_response.response = forged
    await it.answer(part)
    assert {each.agent for each in await it.waiting()} == {"desk", "clerk"}
    await it.answer(*(each.approve() for each in await it.waiting()))
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert await it.waiting() == []


async def test_a_handover_waits_for_no_person_who_is_asked_about_a_call_beside_it(world: World, office: Any) -> None:
    """Control goes over at once; the decision resumes the agent that called, with the result."""

    def root() -> BaseAgent:
        helper = by_turn("helper", "I help.")
        calls = [call("pay", amount=1), call(HAND_TO, agent_name="helper")]
        return by_turn("root", calls, "Paid.", tools=[world.paying], sub_agents=[helper])

    it = office(root)
    assert last_text(await it.say("Go.")) == "I help."
    assert last_text(await approve_all(it)) == "Paid."
    assert world.ran == ["pay 1 bob"]


def hand_on(tool_context: ToolContext) -> str:
    """Hand the case to the helper."""
    tool_context.actions.transfer_to_agent = "helper"
    return "handed on"


def begin(tool_context: ToolContext) -> None:
    """Begin what takes long, and hand the case to the helper."""
    hand_on(tool_context)


def handing_beside(kind: str, how: str) -> Callable[[], BaseAgent]:
    """Hands over, beside an agent that asks a person before it pays."""

    def root() -> BaseAgent:
        mode = {} if kind == "agent tool" else {"mode": kind}
        after = [call("finish_task", result="paid")] if kind == "task" else []
        clerk, helper = payer(World(), "clerk", 1, *after, **mode), by_turn("helper", "I help.")
        tools: list[Any] = [FunctionTool(hand_on, require_confirmation=True), LongRunningFunctionTool(begin)]
        below: list[BaseAgent] = [helper]
        tools, below = (tools, [*below, clerk]) if mode else ([*tools, AgentTool(clerk)], below)
        handover = call(HAND_TO, agent_name="helper") if how == HAND_TO else call(how)
        desk = by_turn("desk", [handover, call("clerk", request="Pay.")], "unreachable", tools=tools, sub_agents=below)
        return SequentialAgent(name="flow", sub_agents=[desk, by_turn("after", "After.")])

    return root


KINDS = ["task", "single_turn", "agent tool"]
BESIDE = [(kind, how) for how in ("hand_on", HAND_TO, "begin") for kind in KINDS[how != "hand_on" :]]


@pytest.mark.parametrize("order", [["hand_on", "pay"], ["hand_on pay"]], ids=["one by one", "at once"])
@pytest.mark.parametrize(("kind", "how"), BESIDE)
async def test_a_handover_comes_when_the_agent_beside_it_has_answered(
    office: Any, kind: str, how: str, order: list[str]
) -> None:
    """Control is not lost for that one's question: the model that has handed over is not asked again."""
    it = office(handing_beside(kind, how))
    await it.say("Go.")
    for names in order if how == "hand_on" else ["pay"]:
        assert "helper" not in {event.author for event in await it.events()}
        await it.answer(*(each.approve() for each in await it.waiting() if each.name in names.split()))
    told = [event.text for event in await it.events() if event.text]
    after = ["After."][: int(how != "begin")]  # what has begun is waited for
    assert told[told.index("I help.") :] == ["I help.", *after]
    assert "unreachable" not in told


@pytest.mark.parametrize(("kind", "how"), BESIDE)
async def test_a_run_that_was_cut_off_anywhere_hands_over_as_it_would_have(kind: str, how: str) -> None:
    root = handing_beside(kind, how)
    it = Desk(root)
    await it.say("Go.")
    if how == "hand_on":
        await it.answer((await it.only("hand_on")).approve())
    asked = len(await it.events())
    await approve_all(it)
    wire = (await it.session()).to_wire()
    whole = [event.text for event in await it.events() if event.text]
    recorded = asked - (how != "begin")  # what has begun without a word is not made again
    for count in range(recorded, len(wire["events"])):
        found = Desk(root)
        found.service.adopt(Session.model_validate({**wire, "events": wire["events"][:count]}))
        await found.say(invocation_id=wire["events"][0]["invocationId"])
        if [each for each in await found.waiting() if each.kind == "confirmation"]:
            await approve_all(found)
        assert [event.text for event in await found.events() if event.text] == whole, count


@pytest.mark.parametrize("cut", [False, True])
async def test_a_handover_comes_when_the_task_beside_it_has_talked_to_the_user(cut: bool) -> None:
    """Its answers come in messages, and so in invocations, of their own."""

    def root() -> BaseAgent:
        clerk = by_turn("clerk", "Which one?", call("finish_task", result="red"), mode="task")
        calls = [call("hand_on"), call("clerk", request="Choose.")]
        gated = FunctionTool(hand_on, require_confirmation=True)
        helper = by_turn("helper", "I help.")
        return by_turn("desk", calls, "unreachable", tools=[gated], sub_agents=[helper, clerk])

    it = Desk(root)
    await it.say("Go.")
    await approve_all(it)
    said = await it.say("The red one.")
    if cut:
        wire = (await it.session()).to_wire()
        it = Desk(root)
        it.service.adopt(Session.model_validate({**wire, "events": wire["events"][:-1]}))
        said = await it.say(invocation_id=wire["events"][-1]["invocationId"])
    assert last_text(said) == "I help."


@pytest.mark.parametrize("cut", [False, True])
async def test_a_handover_by_a_callback_at_the_call_of_an_agent_comes_when_that_one_has_answered(cut: bool) -> None:
    def away(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        hand_on(tool_context)

    def root() -> BaseAgent:
        below = [by_turn("helper", "I help."), payer(World(), "clerk", 1, mode="single_turn")]
        calls = call("clerk", request="Pay.")
        return by_turn("desk", calls, "unreachable", sub_agents=below, before_tool_callback=away)

    it = Desk(root)
    await it.say("Go.")
    assert "helper" not in {event.author for event in await it.events()}
    await approve_all(it)
    if cut:
        wire = (await it.session()).to_wire()
        it = Desk(root)
        it.service.adopt(Session.model_validate({**wire, "events": wire["events"][:-1]}))
        await it.say(invocation_id=wire["events"][0]["invocationId"])
    assert [event.text for event in await it.events() if event.text][-2:] == ["clerk paid.", "I help."]


async def test_a_handover_is_not_put_off_by_a_task_that_a_later_message_has_begun() -> None:
    """Both were asked about before either was answered; the task belongs to the answer that has called it."""

    def root() -> BaseAgent:
        clerk = payer(World(), "clerk", 1, call("finish_task", result="paid"), mode="task")
        answers = [call("hand_on")], [call("clerk", request="Pay.")], "Clerk is done."
        helper, gated = by_turn("helper", "I help."), FunctionTool(hand_on, require_confirmation=True)
        return by_turn("desk", *answers, tools=[gated], sub_agents=[helper, clerk])

    it = Desk(root)
    await it.say("Go.")
    await it.say("Pay, too.")
    await approve_all(it)
    assert [event.text for event in await it.events() if event.text][2:] == ["I help.", "Clerk is done."]
