"""A call may wait anywhere in a tree of agents; the answer goes there, and the run goes on from there.

Each story is told with and without a restart before every answer: another process with agents of its own, and a log
that went through JSON.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowloom import AgentTool, BaseAgent, LoopAgent, ParallelAgent, SequentialAgent, ToolContext
from flowloom.testing import call
from waiting.desk import World, by_turn, last_text, model_of, results_of, seen_results
from waiting.office import HAND_TO, approve_all, payer


async def test_in_a_nested_agent_after_transfers(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 5, "Paid.", "Anything else?")
        desk = by_turn("desk", call(HAND_TO, agent_name="clerk"), sub_agents=[clerk])
        return by_turn("root", call(HAND_TO, agent_name="desk"), sub_agents=[desk])

    it = office(root)
    await it.say("Pay.")
    assert (await it.only()).agent == "clerk"
    assert last_text(await approve_all(it)) == "Paid."
    assert world.ran == ["pay 5 bob"]
    assert last_text(await it.say("Thanks.")) == "Anything else?"


async def test_an_agent_that_may_not_hand_back_still_gets_its_answer(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 5, "Paid.", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
        return by_turn("root", call(HAND_TO, agent_name="clerk"), "Root again.", sub_agents=[clerk])

    it = office(root)
    await it.say("Pay.")
    assert last_text(await approve_all(it)) == "Paid."


async def test_in_the_middle_of_a_sequence(world: World, office: Any) -> None:
    """What was done is not done again; what follows follows."""

    def root() -> BaseAgent:
        return SequentialAgent(
            name="flow",
            sub_agents=[
                by_turn("first", call("look", what="a"), "First.", tools=[world.look]),
                payer(world, "second", 5),
                by_turn("third", call("look", what="z"), "Third.", tools=[world.look]),
            ],
        )

    it = office(root)
    await it.say("Go.")
    assert world.ran == ["look a"]
    assert last_text(await approve_all(it)) == "Third."
    assert world.ran == ["look a", "pay 5 bob", "look z"]
    assert await it.waiting() == []


async def test_partly_answered_a_sequence_waits_on(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        pays = by_turn("pays", [call("pay", amount=1), call("pay", amount=2)], "Some.", "All.", tools=[world.paying])
        return SequentialAgent(name="flow", sub_agents=[pays, by_turn("after", "After.")])

    it = office(root)
    await it.say("Go.")
    one, two = await it.waiting()
    assert last_text(await it.answer(one.approve())) == "Some."
    assert last_text(await it.answer(two.approve())) == "After."
    assert world.ran == ["pay 1 bob", "pay 2 bob"]


async def test_every_member_of_a_sequence_may_ask(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        members: list[BaseAgent] = [payer(world, f"p{n}", n) for n in (1, 2, 3)]
        return SequentialAgent(
            name="outer", sub_agents=[SequentialAgent(name="inner", sub_agents=members[:2]), members[2]]
        )

    it = office(root)
    await it.say("Go.")
    for n in (1, 2, 3):
        assert (await it.only()).args == {"amount": n}
        await approve_all(it)
    assert world.ran == [f"pay {n} bob" for n in (1, 2, 3)]
    assert await it.waiting() == []


async def test_a_rejection_does_not_stop_a_sequence(world: World, office: Any) -> None:
    it = office(lambda: SequentialAgent(name="flow", sub_agents=[payer(world, "one", 1), payer(world, "two", 2)]))
    await it.say("Go.")
    await it.answer((await it.only()).reject("no"))
    await approve_all(it)
    assert world.ran == ["pay 2 bob"]


async def test_in_the_right_round_of_a_loop(world: World, office: Any) -> None:
    """Every round asks anew, and goes on in the member that asked."""

    def enough(tool_context: ToolContext) -> dict[str, bool]:
        """End it."""
        world.ran.append("enough")
        tool_context.actions.escalate = True
        return {"done": True}

    def root() -> BaseAgent:
        pays = by_turn("pays", call("pay", amount=1), "One.", call("pay", amount=2), "Two.", tools=[world.paying])
        checks = by_turn("checks", "More.", call("enough"), "Enough.", tools=[enough])
        rounds = LoopAgent(name="rounds", sub_agents=[by_turn("draft", "D1.", "D2."), pays, checks], max_iterations=5)
        return SequentialAgent(name="flow", sub_agents=[rounds, by_turn("after", "After.")])

    it = office(root)
    await it.say("Go.")
    await approve_all(it)
    assert world.ran == ["pay 1 bob"]
    assert last_text(await approve_all(it)) == "After."
    assert world.ran == ["pay 1 bob", "pay 2 bob", "enough"]
    said = [event.author for event in await it.events() if event.text]
    assert said == ["user", "draft", "pays", "checks", "draft", "pays", "checks", "after"]


def branches(world: World) -> BaseAgent:
    left = SequentialAgent(name="left", sub_agents=[payer(world, "a", 1), by_turn("a2", "Left is done.")])
    both = ParallelAgent(name="both", sub_agents=[left, payer(world, "b", 2), by_turn("c", "Nothing to do.")])
    return SequentialAgent(name="flow", sub_agents=[both, by_turn("after", "After.")])


async def test_parallel_branches_answered_together(world: World, office: Any) -> None:
    it = office(lambda: branches(world))
    await it.say("Go.")
    assert sorted(each.agent for each in await it.waiting()) == ["a", "b"]
    assert last_text(await approve_all(it)) == "After."
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    texts = [event.text for event in await it.events() if event.text]
    assert sorted(texts) == sorted(["Go.", "a paid.", "Left is done.", "b paid.", "Nothing to do.", "After."])


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_parallel_branches_answered_one_at_a_time(world: World, office: Any, order: tuple[str, str]) -> None:
    """The branch that was answered goes on; nothing behind them begins before both are through."""
    it = office(lambda: branches(world))
    await it.say("Go.")
    pending = {each.agent: each for each in await it.waiting()}
    first = await it.answer(pending[order[0]].approve())
    assert "After." not in [event.text for event in first]
    assert [each.agent for each in await it.waiting()] == [order[1]]
    assert len(world.ran) == 1
    assert last_text(await it.answer(pending[order[1]].approve())) == "After."
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert [event.text for event in await it.events()].count("Nothing to do.") == 1


async def test_a_branch_that_is_through_is_not_begun_again_by_the_other_ones_second_question(
    world: World, office: Any
) -> None:
    def root() -> BaseAgent:
        twice = by_turn("twice", call("pay", amount=1), call("pay", amount=2), "Twice.", tools=[world.paying])
        return ParallelAgent(name="both", sub_agents=[twice, payer(world, "once", 9)])

    it = office(root)
    await it.say("Go.")
    pending = {each.agent: each for each in await it.waiting()}
    await it.answer(pending["once"].approve())
    await it.answer(pending["twice"].approve())
    await approve_all(it)
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob", "pay 9 bob"]
    assert await it.waiting() == []


async def test_in_an_agent_tool(world: World, office: Any) -> None:
    """The tool's call stays open; the caller goes on with the agent's answer, and never sees what it asked."""

    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 5, "It is paid.")
        return by_turn("root", call("clerk", request="Pay."), "Done.", tools=[AgentTool(clerk)])

    it = office(root)
    await it.say("Go.")
    pending = await it.only()
    assert pending.agent == "clerk"
    assert last_text(await it.answer(pending.approve())) == "Done."
    assert world.ran == ["pay 5 bob"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "It is paid."}]
    assert await it.waiting() == []


async def test_an_agent_tool_that_asks_twice(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        clerk = by_turn("clerk", call("pay", amount=1), call("pay", amount=2), "Both.", tools=[world.paying])
        return by_turn("root", call("clerk", request="Pay."), "Done.", tools=[AgentTool(clerk)])

    it = office(root)
    await it.say("Go.")
    await approve_all(it)
    assert world.ran == ["pay 1 bob"]
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["pay 1 bob", "pay 2 bob"]


async def test_in_an_agent_tool_in_an_agent_tool(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 5, "It is paid.")
        desk = by_turn(
            "desk",
            call("look", what="x"),
            call("clerk", request="Pay."),
            "Desk done.",
            tools=[AgentTool(clerk), world.look],
        )
        return by_turn("root", call("desk", request="Go."), "Done.", tools=[AgentTool(desk)])

    it = office(root)
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["look x", "pay 5 bob"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "Desk done."}]


async def test_two_agent_tools_at_once_answered_one_at_a_time(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        tools = [AgentTool(payer(world, f"clerk{n}", n)) for n in (1, 2)]
        calls = [call("clerk1", request="Pay."), call("look", what="x"), call("clerk2", request="Pay.")]
        return by_turn("root", calls, "Done.", tools=[*tools, world.look])

    it = office(root)
    await it.say("Go.")
    one, two = await it.waiting()
    await it.answer(two.approve())
    assert [each.id for each in await it.waiting()] == [one.id]
    assert last_text(await it.answer(one.approve())) == "Done."
    assert world.ran == ["look x", "pay 2 bob", "pay 1 bob"]


async def test_two_agent_tools_at_once_answered_together(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        tools = [AgentTool(payer(world, f"clerk{n}", n)) for n in (1, 2)]
        return by_turn("root", [call(f"clerk{n}", request="Pay.") for n in (1, 2)], "Done.", tools=tools)

    it = office(root)
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["pay 1 bob", "pay 2 bob"]


async def test_the_same_agent_tool_called_twice_at_once(world: World, office: Any) -> None:
    """Each call has a run of its own."""

    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 1)
        return by_turn("root", [call("clerk", request=f"Pay {n}.") for n in (1, 2)], "Done.", tools=[AgentTool(clerk)])

    it = office(root)
    await it.say("Go.")
    one, _ = await it.waiting()
    await it.answer(one.approve())
    assert world.ran == ["pay 1 bob"]
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["pay 1 bob"] * 2
    assert len(results_of(await it.events(), "clerk")) == 2


async def test_a_workflow_as_a_tool(world: World, office: Any) -> None:
    """A sequence with branches in it, behind a call: it waits as a whole, and goes on inside."""

    def root() -> BaseAgent:
        return by_turn("root", call("flow", request="Go."), "Done.", tools=[AgentTool(branches(world))])

    it = office(root)
    await it.say("Go.")
    one, two = await it.waiting()
    await it.answer(two.approve())
    assert last_text(await it.answer(one.approve())) == "Done."
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "After."}]


@pytest.mark.parametrize("together", [True, False])
async def test_in_an_agent_tool_in_a_parallel_branch(world: World, office: Any, together: bool) -> None:
    def root() -> BaseAgent:
        members: list[BaseAgent] = [
            by_turn(
                f"m{n}", call(f"clerk{n}", request="Pay."), f"M{n}.", tools=[AgentTool(payer(world, f"clerk{n}", n))]
            )
            for n in (1, 2)
        ]
        both = ParallelAgent(name="both", sub_agents=members)
        return SequentialAgent(name="flow", sub_agents=[both, by_turn("after", "After.")])

    it = office(root)
    await it.say("Go.")
    one, two = await it.waiting()
    if together:
        last = await it.answer(one.approve(), two.approve())
    else:
        assert "After." not in [event.text for event in await it.answer(two.approve())]
        last = await it.answer(one.approve())
    assert last_text(last) == "After."
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert await it.waiting() == []


async def test_in_an_agent_that_was_handed_over_to_within_an_agent_tool(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        clerk = payer(world, "clerk", 5, "It is paid.")
        desk = by_turn("desk", call(HAND_TO, agent_name="clerk"), "unreachable", sub_agents=[clerk])
        return by_turn("root", call("desk", request="Go."), "Done.", tools=[AgentTool(desk)])

    it = office(root)
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["pay 5 bob"]


async def test_in_a_task_that_was_delegated(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        clerk = by_turn(
            "clerk", call("pay", amount=5), call("finish_task", result="Paid."), mode="task", tools=[world.paying]
        )
        return by_turn("root", call("clerk", request="Pay."), "Done.", sub_agents=[clerk])

    it = office(root)
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["pay 5 bob"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "Paid."}]


async def test_in_a_single_turn_agent_that_was_delegated_to(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        return by_turn(
            "root", call("clerk", request="Pay."), "Done.", sub_agents=[payer(world, "clerk", 5, mode="single_turn")]
        )

    it = office(root)
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "Done."
    assert world.ran == ["pay 5 bob"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "clerk paid."}]


async def test_two_single_turn_agents_that_were_delegated_to(world: World, office: Any) -> None:
    """They run at once, so that both ask at once, and go on at once when both are answered."""

    def root() -> BaseAgent:
        clerks: list[BaseAgent] = [payer(world, f"clerk{n}", n, mode="single_turn") for n in (1, 2)]
        return by_turn("root", [call(f"clerk{n}", request="Pay.") for n in (1, 2)], "Done.", sub_agents=clerks)

    it = office(root)
    await it.say("Go.")
    events = await approve_all(it)
    assert last_text(events) == "Done."
    assert sorted(world.ran) == ["pay 1 bob", "pay 2 bob"]
    assert await it.waiting() == []


async def test_in_a_sequence_that_was_handed_over_to(world: World, office: Any) -> None:
    def root() -> BaseAgent:
        flow = SequentialAgent(name="flow", sub_agents=[payer(world, "one", 1), by_turn("two", "Two.", "Two again.")])
        return by_turn("root", call(HAND_TO, agent_name="flow"), "Root.", sub_agents=[flow])

    it = office(root)
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "Two."
    assert world.ran == ["pay 1 bob"]
