"""`Runner(confirm=...)` decides in the process: the run suspends by event, and goes on at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowloom import AgentTool, BaseAgent, LoopAgent, ParallelAgent, SequentialAgent, ToolConfirmation, ToolContext
from flowloom.errors import CallbackError
from flowloom.runner.pending import PendingCall
from flowloom.testing import call
from waiting.desk import WHERE, Desk, World, by_turn, last_text, model_of, seen_results


def yes(_: PendingCall) -> bool:
    return True


async def slow_yes(_: PendingCall) -> bool:
    return True


def yes_in_words(_: PendingCall) -> ToolConfirmation:
    return ToolConfirmation(confirmed=True)


def payer(world: World, name: str, amount: int, **fields: Any) -> BaseAgent:
    return by_turn(name, call("pay", amount=amount), f"{name} paid.", tools=[world.paying], **fields)


def plain(world: World) -> BaseAgent:
    return payer(world, "root", 1)


def nested(world: World) -> BaseAgent:
    return by_turn("root", call("transfer_to_agent", agent_name="clerk"), sub_agents=[payer(world, "clerk", 1)])


def sequence(world: World) -> BaseAgent:
    return SequentialAgent(name="flow", sub_agents=[payer(world, "a", 1), by_turn("b", "B."), payer(world, "c", 2)])


def rounds(world: World) -> BaseAgent:
    pays = by_turn("pays", call("pay", amount=1), "One.", call("pay", amount=2), "Two.", tools=[world.paying])
    return LoopAgent(name="rounds", sub_agents=[pays], max_iterations=2)


def branches(world: World) -> BaseAgent:
    return ParallelAgent(name="both", sub_agents=[payer(world, "a", 1), payer(world, "b", 2)])


def tool(world: World) -> BaseAgent:
    return by_turn("root", call("clerk", request="Pay."), "Done.", tools=[AgentTool(payer(world, "clerk", 1))])


def tool_in_tool(world: World) -> BaseAgent:
    desk = by_turn("desk", call("clerk", request="Pay."), "Desk.", tools=[AgentTool(payer(world, "clerk", 1))])
    return by_turn("root", call("desk", request="Pay."), "Done.", tools=[AgentTool(desk)])


def tools_in_branches(world: World) -> BaseAgent:
    members: list[BaseAgent] = [
        by_turn(f"m{n}", call(f"clerk{n}", request="Pay."), "M.", tools=[AgentTool(payer(world, f"clerk{n}", n))])
        for n in (1, 2)
    ]
    return ParallelAgent(name="both", sub_agents=members)


def task(world: World) -> BaseAgent:
    answers = call("pay", amount=1), call("finish_task", result="Paid.")
    clerk = by_turn("clerk", *answers, mode="task", tools=[world.paying])
    return by_turn("root", call("clerk", request="Pay."), "Done.", sub_agents=[clerk])


def single_turn(world: World) -> BaseAgent:
    clerk = payer(world, "clerk", 1, mode="single_turn")
    return by_turn("root", call("clerk", request="Pay."), "Done.", sub_agents=[clerk])


PLACES = [plain, nested, sequence, rounds, branches, tool, tool_in_tool, tools_in_branches, task, single_turn]


@pytest.mark.parametrize("decide", [yes, slow_yes, yes_in_words], ids=lambda each: each.__name__)
@pytest.mark.parametrize("place", PLACES, ids=lambda each: each.__name__)
async def test_what_it_approves_runs_in_the_same_run(
    world: World, place: Callable[[World], BaseAgent], decide: Any
) -> None:
    it = Desk(lambda: place(world), confirm=decide)
    events = await it.say("Go.")
    amounts = (1, 2) if place in (sequence, rounds, branches, tools_in_branches) else (1,)
    assert sorted(world.ran) == [f"pay {n} bob" for n in amounts]
    assert await it.waiting() == []
    assert len({event.invocation_id for event in events}) == 1
    asked = [c.name for event in await it.events() for c in event.get_function_calls() if event.long_running_tool_ids]
    assert asked == ["adk_request_confirmation"] * len(amounts), "it suspends by event as for a person"


@pytest.mark.parametrize("place", PLACES, ids=lambda each: each.__name__)
async def test_what_it_leaves_open_waits_for_a_person(world: World, place: Callable[[World], BaseAgent]) -> None:
    asked: list[str] = []

    def undecided(pending: PendingCall) -> None:
        asked.append(pending.id)

    it = Desk(lambda: place(world), confirm=undecided)
    await it.say("Go.")
    assert world.ran == []
    assert asked == [each.id for each in await it.waiting()], "each is asked about once"
    await it.answer((await it.waiting())[0].approve())
    assert len(world.ran) == 1


@pytest.mark.parametrize("place", PLACES, ids=lambda each: each.__name__)
async def test_what_it_rejects_does_not_run(world: World, place: Callable[[World], BaseAgent]) -> None:
    it = Desk(lambda: place(world), confirm=lambda _: ToolConfirmation(confirmed=False, reason="not today"))
    await it.say("Go.")
    assert world.ran == []
    assert await it.waiting() == []
    told = [answer.response for event in await it.events() for answer in event.get_function_responses()]
    assert any("not today" in str(each) for each in told)


async def test_it_may_edit_arguments(world: World) -> None:
    it = Desk(lambda: plain(world), confirm=lambda _: ToolConfirmation(confirmed=True, edited_args={"amount": 9}))
    await it.say("Go.")
    assert world.ran == ["pay 9 bob"]


async def test_what_it_decides_partly_goes_on_partly(world: World) -> None:
    """It is not asked again about what it has left open, and the run ends."""
    asked: list[int] = []

    def small(pending: PendingCall) -> bool | None:
        asked.append(pending.args["amount"])
        return True if pending.args["amount"] < 10 else None

    calls = [call("pay", amount=1), call("pay", amount=100)]
    it = Desk(lambda: by_turn("root", calls, "So far.", "All.", tools=[world.paying]), confirm=small)
    await it.say("Go.")
    assert world.ran == ["pay 1 bob"]
    assert asked == [1, 100]
    assert [each.args for each in await it.waiting()] == [{"amount": 100}]
    await it.answer((await it.only()).approve())
    assert world.ran == ["pay 1 bob", "pay 100 bob"]


async def test_an_error_of_its_own_ends_the_run_and_the_call_waits(world: World) -> None:
    def broken(_: PendingCall) -> bool:
        raise RuntimeError("no network")

    it = Desk(lambda: plain(world), confirm=broken)
    with pytest.raises(RuntimeError, match="no network"):
        await it.say("Go.")
    await it.answer((await it.only()).reject())
    assert world.ran == []


@pytest.mark.parametrize(("answer", "code"), [(1 / 4, "CallbackError"), (RuntimeError("no"), "RuntimeError")])
async def test_decision_31_an_error_of_its_own_is_raised_after_one_error_event(
    world: World, answer: Any, code: str
) -> None:
    """It is stored behind the request, which can be answered still."""

    def broken(_: PendingCall) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    it = Desk(lambda: plain(world), confirm=broken)
    with pytest.raises((CallbackError, RuntimeError)) as caught:
        await it.say("Go.")
    assert type(caught.value).__name__ == code
    codes = [event.error_code for event in await it.events()]
    assert ([*filter(None, codes)], codes[-1]) == ([code], code)
    it.runner.confirm = None
    assert last_text(await it.answer((await it.only()).approve())) == "root paid."


async def test_input_is_left_to_a_person(world: World) -> None:
    it = Desk(lambda: by_turn("root", call("book", what="car"), "Booked.", tools=[world.book]), confirm=yes)
    await it.say("Go.")
    assert world.ran == []
    await it.answer((await it.only()).reply("today"))
    assert world.ran == ["book car today"]


async def test_a_tool_that_asks_again_is_decided_again(world: World) -> None:
    def careful(tool_context: ToolContext) -> str:
        """Ask twice."""
        world.ran.append("tried")
        if len(world.ran) < 3:
            tool_context.request_confirmation(hint="sure?")
            return "asked"
        return "done"

    it = Desk(lambda: by_turn("root", call("careful"), "All done.", tools=[careful]), confirm=yes)
    assert last_text(await it.say("Go.")) == "All done."
    assert len(world.ran) == 3


async def test_the_result_of_the_run_is_that_of_all_its_turns(world: World) -> None:
    it = Desk(lambda: sequence(world), confirm=yes)
    result = await it.runner.run_to_result(**WHERE, new_message="Go.")
    assert (result.text, result.status, result.pending) == ("c paid.", "final", [])
    assert result.model_calls == 5
    it = Desk(lambda: sequence(world), confirm=lambda _: None)
    result = await it.runner.run_to_result(**WHERE, new_message="Go.")
    assert (result.status, [each.name for each in result.pending]) == ("paused", ["pay"])


async def test_a_runner_without_it_sees_the_same_log(world: World) -> None:
    it = Desk(lambda: tool(world), confirm=yes)
    await it.say("Go.")
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "clerk paid."}]
    await it.restart()
    assert await it.waiting() == []
