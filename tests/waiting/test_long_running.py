"""Tools that take days: first reports, reports of progress, results, and what happens in between."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, named_call, result, said, story, user

from flowloom import (
    AgentTool,
    BaseAgent,
    Context,
    Event,
    InvocationContext,
    Limits,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    Session,
)
from flowloom.testing import call
from waiting.desk import Desk, World, by_turn, last_text, model_of, seen_results
from waiting.office import payer


def orders(world: World, name: str, what: str, *after: Any, **fields: Any) -> BaseAgent:
    answers = after or (f"{what} is there.",)
    return by_turn(name, call("order", what=what), *answers, tools=[world.ordering], **fields)


async def test_the_result_comes_days_later_to_another_process(world: World) -> None:
    it = Desk(lambda: orders(world, "root", "pizza"))
    events = await it.say("Go.")
    assert len(events) == 1, "the model is not asked before there is anything to tell"
    pending = await it.only()
    assert (pending.kind, pending.name, pending.args) == ("tool", "order", {"what": "pizza"})
    await it.restart()
    assert last_text(await it.answer(pending.reply({"price": 7}))) == "pizza is there."
    assert world.ran == ["order pizza"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"price": 7}]
    assert await it.waiting() == []


async def test_reports_of_progress_and_then_the_result(world: World) -> None:
    """Each asks the model once more, which sees the latest only; the tool runs once."""

    def root() -> BaseAgent:
        return by_turn("root", call("ship", what="box"), "It is on its way.", tools=[world.shipping])

    it = Desk(root)
    await it.say("Go.")
    pending = await it.only()
    for report in ({"status": "packed"}, {"status": "on the road"}, {"status": "arrived"}):
        await it.restart()
        await it.answer(pending.reply(report))
        (request,) = model_of(it.runner.agent).requests
        assert seen_results(request) == [report]
        assert len(request.contents) == 3
    assert world.ran == ["ship box"]


async def test_several_in_a_row(world: World) -> None:
    def root() -> BaseAgent:
        return by_turn("root", *(call("order", what=str(n)) for n in range(4)), "All there.", tools=[world.ordering])

    it = Desk(root)
    await it.say("Go.")
    for n in range(4):
        await it.restart()
        last = await it.answer((await it.only()).reply(f"got {n}"))
    assert last_text(last) == "All there."
    assert world.ran == [f"order {n}" for n in range(4)]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": f"got {n}"} for n in range(4)]


async def test_two_at_once_in_one_message(world: World) -> None:
    calls = [call("order", what="a"), call("look", what="x"), call("order", what="b")]
    it = Desk(lambda: by_turn("root", calls, "All.", tools=[world.ordering, world.look]))
    await it.say("Go.")
    one, two = await it.waiting()
    assert last_text(await it.answer(two.reply("B"), one.reply("A"))) == "All."
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"seen": "x"}, {"result": "A"}, {"result": "B"}]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_two_at_once_answered_one_at_a_time(world: World, order: tuple[int, int]) -> None:
    """The model is asked when both are there: no provider takes a turn of which half the results are missing."""
    calls = [call("order", what="a"), call("order", what="b")]
    it = Desk(lambda: by_turn("root", calls, "All.", tools=[world.ordering]))
    await it.say("Go.")
    pending = await it.waiting()
    assert await it.answer(pending[order[0]].reply(f"got {order[0]}")) == []
    assert [each.id for each in await it.waiting()] == [pending[order[1]].id]
    await it.restart()
    assert last_text(await it.answer(pending[order[1]].reply(f"got {order[1]}"))) == "All."
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "got 0"}, {"result": "got 1"}]


async def test_a_question_in_between_is_answered_and_the_result_comes_after_other_turns(world: World) -> None:
    it = Desk(lambda: orders(world, "root", "pizza", "It takes a while.", "Still baking.", "There."))
    await it.say("Go.")
    pending = await it.only()
    assert last_text(await it.say("Where is it?")) == "It takes a while."
    await it.restart()
    assert last_text(await it.say("And now?")) == "Still baking."
    assert (await it.only()).id == pending.id
    await it.answer(pending.reply("hot"))
    assert world.ran == ["order pizza"]
    assert {"result": "hot"} in seen_results(model_of(it.runner.agent).requests[-1])
    assert await it.waiting() == []


async def test_words_beside_the_result_are_heard(world: World) -> None:
    it = Desk(lambda: orders(world, "root", "pizza"))
    await it.say("Go.")
    await it.answer((await it.only()).reply("hot"), types.Part(text="Enjoy!"))
    contents = model_of(it.runner.agent).requests[-1].contents
    assert "Enjoy!" in [part.text for content in contents for part in content.parts or ()]


def two_orders(name: str = "root") -> BaseAgent:
    """Orders two things in its first turn, and looks at something in its next one."""
    first, look = [call("order", what="pen"), call("order", what="ink")], call("look", what="shelf")
    world = World()
    return by_turn(name, first, look, "I see.", tools=[world.ordering, world.look])


@pytest.mark.parametrize("cut_off", [False, True])
async def test_words_beside_one_of_two_results_do_not_wait_for_the_other(cut_off: bool) -> None:
    """Also if the run that was to hear them was cut off."""
    it = Desk(two_orders)
    await it.say("Go.")
    log, (pen, _) = await it.events(), await it.waiting()
    said = await it.answer(pen.reply({"price": 1}), types.Part(text="And?"))
    if cut_off:
        wire = (await it.session()).to_wire()
        it.service.adopt(Session.model_validate({**wire, "events": wire["events"][: len(log) + 1]}))
        said = await it.say(invocation_id=log[-1].invocation_id)
    assert last_text(said) == "I see."


async def test_words_beside_a_result_do_not_wait_for_an_agent_as_a_tool_that_was_called_before(world: World) -> None:
    def root() -> BaseAgent:
        calls = [call("order", what="pen"), call("inner", request="Pay.")]
        return by_turn("root", calls, "Noted.", tools=[world.ordering, AgentTool(payer(world, "inner", 1))])

    it = Desk(root)
    await it.say("Go.")
    pen = await it.only("order")
    assert last_text(await it.answer(pen.reply("pen"), types.Part(text="And?"))) == "Noted."


async def test_words_beside_a_result_do_not_wait_for_what_is_called_after_them() -> None:
    """Only agents as tools that were called since do, also in a run that goes on where another one was cut off."""
    world = World()

    def root(*beside: types.Part, then: str) -> BaseAgent:
        tools = [world.look, world.ordering, AgentTool(payer(world, "inner", 1))]
        return by_turn("root", call("order", what="pen"), [call("look", what="up"), *beside], then, tools=tools)

    it = Desk(lambda: root(call("order", what="ink"), then="Noted."))
    await it.say("Go.")
    assert last_text(await it.answer((await it.only()).reply("pen"), types.Part(text="And?"))) == "Noted."
    it = Desk(lambda: root(call("inner", request="Pay."), then="unreachable"))
    await it.say("Go.")
    await it.answer((await it.only()).reply("pen"), types.Part(text="And?"))
    log = [e for e in await it.events() if all(each.name != "look" for each in e.get_function_responses())]
    it.service.adopt((await it.session()).model_copy(update={"events": log}))
    assert [event.text for event in await it.say(invocation_id=log[-1].invocation_id) if event.text] == []
    assert world.ran.count("look up") == 3


async def test_the_other_of_two_results_is_waited_for_whatever_was_said_in_between() -> None:
    """In another invocation the agent has called a tool, which has its result."""
    it = Desk(two_orders)
    await it.say("Go.")
    pen, ink = await it.waiting()
    assert last_text(await it.say("What is on the shelf?")) == "I see."
    assert await it.answer(pen.reply({"price": 1})) == []
    assert last_text(await it.answer(ink.reply({"price": 2}))) == "I see."


async def test_the_other_of_two_results_is_waited_for_in_an_agent_that_runs_as_a_tool() -> None:
    """The words that it was called with are none of the user's."""

    def root() -> BaseAgent:
        return by_turn("root", call("inner", request="Order."), "Done.", tools=[AgentTool(two_orders("inner"))])

    it = Desk(root)
    await it.say("Go.")
    pen, ink = await it.waiting()
    assert [event.text for event in await it.answer(pen.reply({"price": 1})) if event.text] == []
    assert last_text(await it.answer(ink.reply({"price": 2}))) == "Done."


async def test_a_limit_does_not_answer_the_call_of_an_agent_that_waits_for_the_other_of_two_results() -> None:
    """Though the run that has the first one would have called it again."""

    def order(what: str) -> None:
        """Order something, which takes days."""

    both = [named_call("p1", "order", what="x"), named_call("p2", "order", what="y")]
    helper = agent("helper", both, "Both are there.", tools=[LongRunningFunctionTool(order)])
    chat = Chat(agent("root", named_call("c1", "helper", request="order"), "done", tools=[AgentTool(helper)]))
    await chat.say("Go.")
    no_more = RunConfig(limits=Limits(tool_calls=0, on_limit="stop"))
    assert story(await chat.say(user(result("p1", "order", {})), run_config=no_more)) == ["root: !LimitExceededError"]
    assert story(await chat.answer(result("p2", "order", {})))[-1] == "root: done"
    assert (await chat.stored())[-2].get_function_responses()[0].response == {"result": "Both are there."}


async def test_the_other_of_two_results_is_waited_for_beside_calls_of_other_agents() -> None:
    """Of one that the agent has handed over to, which has called a tool since."""
    world = World()

    def root() -> BaseAgent:
        clerk = by_turn("clerk", call("look", what="shelf"), "Here.", tools=[world.look])
        calls = [call("order", what="pen"), call("order", what="ink"), call("transfer_to_agent", agent_name="clerk")]
        return by_turn("root", calls, "All.", tools=[world.ordering], sub_agents=[clerk])

    it = Desk(root)
    assert last_text(await it.say("Go.")) == "Here."
    pen, ink = await it.waiting()
    assert await it.answer(pen.reply({"price": 1})) == []
    assert last_text(await it.answer(ink.reply({"price": 2}))) == "All."


async def test_a_result_is_waited_for_in_an_invocation_without_a_message(world: World) -> None:
    """It was cut off before the other call of the answer had run."""
    calls = [call("order", what="pen"), call("look", what="shelf")]
    it = Desk(lambda: by_turn("root", calls, "unreachable", tools=[world.ordering, world.look]))
    await it.say("Go.")
    wire, pen = (await it.session()).to_wire(), await it.only()
    it.service.adopt(Session.model_validate({**wire, "events": wire["events"][1:2]}))
    world.ran.clear()
    assert last_text(await it.say(invocation_id=pen.invocation_id)) == ""
    assert world.ran == ["look shelf"]


async def test_the_same_result_twice_in_one_message_is_shown_once(world: World) -> None:
    it = Desk(lambda: orders(world, "root", "pizza"))
    await it.say("Go.")
    pending = await it.only()
    await it.answer(pending.reply("cold"), pending.reply("hot"))
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "hot"}]


async def test_a_result_that_comes_again_runs_nothing(world: World) -> None:
    it = Desk(lambda: orders(world, "root", "pizza", "There.", "I know."))
    await it.say("Go.")
    pending = await it.only()
    await it.answer(pending.reply("hot"))
    await it.answer(pending.reply("hot"))
    assert world.ran == ["order pizza"]


async def test_in_a_sequence_what_follows_waits(world: World) -> None:
    it = Desk(lambda: SequentialAgent(name="flow", sub_agents=[orders(world, "a", "1"), orders(world, "b", "2")]))
    await it.say("Go.")
    assert world.ran == ["order 1"]
    await it.restart()
    await it.answer((await it.only()).reply("one"))
    assert world.ran == ["order 1", "order 2"]
    assert last_text(await it.answer((await it.only()).reply("two"))) == "2 is there."


@pytest.mark.parametrize("kind", [SequentialAgent, LoopAgent])
@pytest.mark.parametrize("waits", [False, True], ids=["over", "waiting"])
async def test_a_report_to_a_member_whose_workflow_went_on_asks_its_model(world: World, kind: Any, waits: bool) -> None:
    """Those behind it that have begun are where they were: one that is over is not run again, one that waits does."""

    def root() -> BaseAgent:
        first = by_turn("first", call("ship", what="box"), "It is on its way.", tools=[world.shipping])
        last = orders(world, "last", "pizza") if waits else by_turn("last", "All told.")
        rounds = {"max_iterations": 1} if kind is LoopAgent else {}
        return kind(name="root", sub_agents=[first, last], after_agent_callback=signed, **rounds)

    def signed(callback_context: Context) -> None:
        callback_context.state["over"] = True

    it = Desk(root)
    await it.say("Go.")
    pending = await it.only()
    await it.answer(pending.reply({"status": "packed"}))
    await it.restart()
    events = await it.answer(pending.reply({"status": "arrived"}))
    first, last = it.runner.agent.sub_agents
    assert [event.author for event in events if event.content is not None] == ["first"]
    assert seen_results(model_of(first).requests[-1]) == [{"status": "arrived"}]
    assert model_of(last).requests == []
    assert [each.name for each in await it.waiting()] == (["order"] if waits else [])


class Clerk(BaseAgent):
    """Runs its first sub-agent."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent, Clerk])
@pytest.mark.parametrize("says", [None, said("For now.")], ids=["state", "content"])
async def test_what_a_callback_adds_behind_members_that_wait_does_not_end_their_workflow(kind: Any, says: Any) -> None:
    """The callback is asked at the end of each run: the answer reaches the member all the same."""
    world = World()

    def sign(callback_context: Context) -> Any:
        callback_context.state["runs"] = callback_context.state.get("runs", 0) + 1
        return says

    def root() -> BaseAgent:
        rounds = {"max_iterations": 1} if kind is LoopAgent else {}
        member = orders(world, "member", "pizza")
        return kind(name="root", sub_agents=[member], after_agent_callback=sign, **rounds)

    it = Desk(root)
    await it.say("Go.")
    await it.restart()
    await it.answer((await it.only()).reply("hot"))
    assert seen_results(model_of(it.runner.agent.sub_agents[0]).requests[-1]) == [{"result": "hot"}]
    assert (await it.session()).state["runs"] == 2
    assert await it.waiting() == []


async def test_in_branches_and_in_agent_tools(world: World) -> None:
    def root() -> BaseAgent:
        deep = by_turn("deep", call("inner", request="x"), "Deep.", tools=[AgentTool(orders(world, "inner", "i"))])
        tool = by_turn("m", call("deep", request="x"), "M.", tools=[AgentTool(deep)])
        both = ParallelAgent(name="both", sub_agents=[tool, orders(world, "b", "o")])
        return SequentialAgent(name="flow", sub_agents=[both, by_turn("after", "After.")])

    it = Desk(root)
    await it.say("Go.")
    pending = {each.agent: each for each in await it.waiting()}
    assert set(pending) == {"inner", "b"}
    await it.answer(pending["inner"].reply("in"))
    await it.restart()
    assert last_text(await it.answer(pending["b"].reply("out"))) == "After."
    assert sorted(world.ran) == ["order i", "order o"]


async def test_one_that_needs_approval_first(world: World) -> None:
    """Approved it starts, and then it waits for its result."""
    tool = LongRunningFunctionTool(world.order, require_confirmation=True)
    it = Desk(lambda: by_turn("root", call("order", what="car"), "There.", tools=[tool]))
    await it.say("Go.")
    pending = {each.kind: each for each in await it.waiting()}
    assert set(pending) == {"confirmation"}
    assert world.ran == []
    await it.answer(pending["confirmation"].approve())
    assert world.ran == ["order car"]
    await it.restart()
    waiting = await it.only()
    assert waiting.kind == "tool"
    assert last_text(await it.answer(waiting.reply("red"))) == "There."
    assert world.ran == ["order car"]
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "red"}]


async def test_an_approval_that_comes_again_does_not_start_it_again(world: World) -> None:
    tool = LongRunningFunctionTool(world.order, require_confirmation=True)
    it = Desk(lambda: by_turn("root", call("order", what="car"), "It is under way.", "There.", tools=[tool]))
    await it.say("Go.")
    pending = await it.only()
    for _ in range(3):
        await it.answer(pending.approve())
        await it.restart()
    assert world.ran == ["order car"]
    await it.answer((await it.only()).reply("red"))
    assert await it.waiting() == []


async def test_one_that_is_rejected_or_fails_waits_no_more(world: World) -> None:
    def broken(what: str) -> None:
        """Start something."""
        raise RuntimeError("sold out")

    def root() -> BaseAgent:
        order = LongRunningFunctionTool(world.order, require_confirmation=True)
        calls = [call("order", what="car"), call("broken", what="x")]
        tools: list[Any] = [order, LongRunningFunctionTool(broken)]
        return SequentialAgent(name="flow", sub_agents=[by_turn("a", calls, "A.", tools=tools), by_turn("b", "B.")])

    it = Desk(root)
    await it.say("Go.")
    assert last_text(await it.answer((await it.only()).reject("no"))) == "B."
    assert world.ran == []
    assert await it.waiting() == []


async def test_in_a_delegate_of_an_agent_tool(world: World) -> None:
    """The result reaches the agent that has called, and no other."""

    def root() -> BaseAgent:
        clerk = orders(world, "clerk", "c", mode="single_turn")
        desk = by_turn("desk", call("clerk", request="x"), "Desk.", sub_agents=[clerk])
        return by_turn("root", call("desk", request="x"), "Root.", tools=[AgentTool(desk)])

    clerks: list[BaseAgent] = []

    def kept() -> BaseAgent:
        built = root()
        tool: Any = built.tools[0]  # type: ignore[attr-defined]
        clerks.append(tool.agent.sub_agents[0])
        return built

    it = Desk(kept)
    await it.say("Go.")
    await it.restart()
    assert last_text(await it.answer((await it.only()).reply("here"))) == "Root."
    assert seen_results(model_of(clerks[-1]).requests[-1]) == [{"result": "here"}]


async def test_in_a_single_turn_delegate(world: World) -> None:
    def root() -> BaseAgent:
        clerk = orders(world, "clerk", "c", mode="single_turn")
        return by_turn("root", call("clerk", request="x"), "Root.", sub_agents=[clerk])

    it = Desk(root)
    await it.say("Go.")
    await it.restart()
    assert last_text(await it.answer((await it.only()).reply("here"))) == "Root."
    assert seen_results(model_of(it.runner.agent, "clerk").requests[-1]) == [{"result": "here"}]


async def test_what_a_tool_has_changed_is_kept_although_it_has_no_result_yet() -> None:
    """Alone, and beside a call that has one."""

    def order(what: str, tool_context: Context) -> None:
        """Orders."""
        tool_context.state["ordered"] = what

    def note(what: str) -> str:
        """Notes."""
        return what

    def root() -> BaseAgent:
        steps = call("order", what="alone"), "Done.", [call("order", what="beside"), call("note", what="x")], "Noted."
        return by_turn("root", *steps, tools=[LongRunningFunctionTool(order), note])

    it = Desk(root)
    *_, changed = await it.say("Go.")
    assert (changed.actions.state_delta, changed.get_function_responses()) == ({"ordered": "alone"}, [])
    pending = await it.only()
    await it.restart()
    assert (await it.session()).state["ordered"] == "alone"
    assert last_text(await it.answer(pending.reply("done"))) == "Done."
    await it.say("Again.")
    assert (await it.session()).state["ordered"] == "beside"
