"""Who goes on after a run that was cut off, if an agent has handed over to another one and both are spoken to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import ClassVar

import pytest
from kit import event as logged
from kit import result
from waiting.desk import WHERE, ByTurn, Desk, World, by_turn, last_text, model_of, seen_results
from waiting.office import HAND_TO, approve_all, payer

from flowloom import (
    AgentTool,
    BaseAgent,
    Context,
    Event,
    InvocationContext,
    LlmAgent,
    ParallelAgent,
    SequentialAgent,
    Session,
    ToolContext,
)
from flowloom.context.hooks import FlowCallbacks
from flowloom.testing import call


def handing_desk(to_workflow: bool = False) -> BaseAgent:
    """It orders a pen, which takes days, and hands over to a clerk that pays once a person has approved."""
    world = World()
    clerk: BaseAgent = payer(world, "cashier" if to_workflow else "clerk", 2, "Paid.")
    if to_workflow:
        clerk = SequentialAgent(name="clerk", sub_agents=[clerk])
    calls = [call("order", what="pen"), call(HAND_TO, agent_name="clerk")]
    return by_turn("desk", calls, "Desk ordered.", tools=[world.ordering], sub_agents=[clerk])


def handing_to_workflow() -> BaseAgent:
    return handing_desk(to_workflow=True)


def in_sequence() -> BaseAgent:
    return SequentialAgent(name="flow", sub_agents=[handing_desk(), by_turn("after", "After.")])


def in_sequence_to_workflow() -> BaseAgent:
    return SequentialAgent(name="flow", sub_agents=[handing_desk(to_workflow=True), by_turn("after", "After.")])


async def cut(it: Desk, root: Callable[[], BaseAgent], count: int) -> Desk:
    """Another process, with the first events of the log."""
    wire = (await it.session()).to_wire()
    found = Desk(root)
    found.service.adopt(Session.model_validate({**wire, "events": wire["events"][:count]}))
    return found


async def resumed(it: Desk) -> list[str]:
    """What the agents say in a run that resumes the invocation."""
    invocation_id = (await it.events())[-1].invocation_id
    return [event.text async for event in it.runner.run_async(**WHERE, invocation_id=invocation_id) if event.text]


async def waiting(root: Callable[[], BaseAgent]) -> tuple[Desk, int]:
    """A desk where an order and an approval wait, and how many events its log has."""
    it = Desk(root)
    await it.say("Go.")
    assert {each.name for each in await it.waiting()} == {"order", "pay"}
    return it, len(await it.events())


@pytest.mark.parametrize("root", [handing_desk, handing_to_workflow, in_sequence])
async def test_the_one_that_handed_over_goes_on_with_its_answer(root: Callable[[], BaseAgent]) -> None:
    it, asked = await waiting(root)
    await it.answer((await it.only("order")).reply("pen"))
    assert await resumed(await cut(it, root, asked + 1)) == ["Desk ordered."]


@pytest.mark.parametrize(
    ("root", "then"),
    [(handing_desk, []), (handing_to_workflow, []), (in_sequence, ["After."]), (in_sequence_to_workflow, ["After."])],
)
async def test_the_one_whose_call_has_run_last_goes_on_with_its_result(
    root: Callable[[], BaseAgent], then: list[str]
) -> None:
    """Its approval was left over from a run that was cut off, and carried out when the other one had spoken."""
    it, asked = await waiting(root)
    order, pay = await it.only("order"), await it.only("pay")
    await it.answer(pay.approve())
    it = await cut(it, root, asked + 1)
    await it.answer(order.reply("pen"))
    log = await it.events()
    ran = next(at for at, event in enumerate(log) if event.text == "Paid.") - 1
    assert [each.name for each in log[ran].get_function_responses()] == ["pay"]
    assert [event.text for event in log[ran - 1 :] if event.text] == ["Desk ordered.", "Paid.", *then]
    assert await resumed(await cut(it, root, ran + 1)) == ["Paid.", *then]


async def test_words_in_the_same_invocation_are_for_the_one_that_the_runner_chooses() -> None:
    """For the root, as the one that has spoken last may not hand back: a run that is cut off then changes nothing."""

    def root() -> BaseAgent:
        clerk = by_turn("clerk", "What may I pay?", "No.", disallow_transfer_to_parent=True)
        return by_turn("desk", call(HAND_TO, agent_name="clerk"), "Nothing.", sub_agents=[clerk])

    it = Desk(root)
    asked = await it.say("Go.")
    log = len(await it.events())
    assert last_text(await it.say("More.", invocation_id=asked[-1].invocation_id)) == "Nothing."
    assert await resumed(await cut(it, root, log + 1)) == ["Nothing."]


def hand_on(tool_context: ToolContext) -> str:
    """Hand the case to the clerk."""
    tool_context.actions.transfer_to_agent = "clerk"
    return "handed on"


async def test_one_that_a_task_agent_has_handed_over_to_goes_on_with_its_answer() -> None:
    def root() -> BaseAgent:
        clerk = payer(World(), "clerk", 2, "Paid.")
        lead = by_turn("lead", call("hand_on"), "Lead.", mode="task", tools=[hand_on], sub_agents=[clerk])
        return by_turn("desk", call("lead", request="Pay."), "Done.", sub_agents=[lead])

    it = Desk(root)
    await it.say("Go.")
    assert last_text(await it.answer((await it.only("pay")).approve())) == "Paid."


async def test_one_that_is_handed_over_to_anew_begins_anew() -> None:
    """Though it had its say before the run was resumed, also if that is cut off before it speaks again."""

    def root() -> BaseAgent:
        clerk, hand = by_turn("clerk", "Noted.", "Again."), call(HAND_TO, agent_name="clerk")
        answers = [call("order", what="pen"), hand], hand, "unreachable"
        return by_turn("desk", *answers, tools=[World().ordering], sub_agents=[clerk])

    it = Desk(root)
    assert last_text(await it.say("Go.")) == "Noted."
    assert last_text(await it.answer((await it.only("order")).reply("pen"))) == "Again."
    assert await resumed(await cut(it, root, len(await it.events()) - 1)) == ["Again."]


async def test_one_that_was_handed_over_to_in_a_workflow_goes_on_with_its_answer() -> None:
    def root() -> BaseAgent:
        clerk = by_turn("clerk", call("order", what="pen"), "Ordered.", tools=[World().ordering])
        desk = by_turn("desk", call(HAND_TO, agent_name="clerk"), "unreachable", sub_agents=[clerk])
        return SequentialAgent(name="flow", sub_agents=[desk, by_turn("after", "After.")])

    it = Desk(root)
    await it.say("Go.")
    asked = len(await it.events())
    await it.answer((await it.only()).reply("pen"))
    assert await resumed(await cut(it, root, asked + 1)) == ["Ordered.", "After."]


async def test_one_that_control_came_back_to_goes_on_alone_with_an_answer_for_it() -> None:
    """The one that it had handed over to, and that has nothing more to do, is not entered again."""
    asked: list[str] = []

    def root() -> BaseAgent:
        clerk = Quiet(name="clerk", before_agent_callback=lambda callback_context: asked.append("clerk"))
        calls = call(HAND_TO, agent_name="clerk"), call("order", what="pen")
        desk = by_turn("desk", *calls, "Ordered.", tools=[World().ordering], sub_agents=[clerk])
        return SequentialAgent(name="flow", sub_agents=[desk])

    it = Desk(root)
    await it.say("Go.")
    assert (last_text(await it.answer((await it.only()).reply("pen"))), asked) == ("Ordered.", ["clerk"])


@pytest.mark.parametrize("answered", [True, False])
async def test_one_that_got_control_back_by_a_handover_goes_on_as_the_one_that_was_answered_or_the_third(
    answered: bool,
) -> None:
    """The runner begins at the agent that was answered (spec §18.6); a run that was cut off goes on as it stood, and
    control goes back through those that handed over (decision 27)."""
    ended: list[str] = []

    def root() -> BaseAgent:
        clerk = by_turn("clerk", call(HAND_TO, agent_name="desk"))
        to_do = call("pay", amount=1) if answered else call("look", what="pen")
        calls = call(HAND_TO, agent_name="clerk"), to_do
        desk = by_turn("desk", *calls, "Done.", tools=[World().paying, World().look], sub_agents=[clerk])
        for each in (desk, clerk):
            each.after_agent_callback = lambda callback_context: ended.append(callback_context.agent_name)
        return desk

    it = Desk(root)
    await it.say("Go.")
    ended.clear()
    if answered:
        assert last_text(await approve_all(it)) == "Done."
        assert ended == ["desk"]
    else:
        assert await resumed(await cut(it, root, len(await it.events()) - 1)) == ["Done."]
        assert ended == ["desk", "clerk", "desk"]


async def test_those_that_have_handed_over_to_one_that_waits_wait_too() -> None:
    def root() -> BaseAgent:
        asking = AgentTool(payer(World(), "cashier", 1))
        clerk = by_turn("clerk", call("cashier", request="Pay."), "unreachable", tools=[asking])
        return by_turn("desk", call(HAND_TO, agent_name="clerk"), "unreachable", sub_agents=[clerk])

    it = Desk(root)
    await it.say("Go.")
    assert await resumed(it) == []


async def test_one_that_was_handed_over_to_in_an_agent_that_runs_as_a_tool_goes_on_with_its_answer() -> None:
    def root() -> BaseAgent:
        clerk = by_turn("clerk", call("order", what="pen"), "Ordered.", tools=[World().ordering])
        desk = by_turn("desk", call(HAND_TO, agent_name="clerk"), "unreachable", sub_agents=[clerk])
        return by_turn("root", call("desk", request="Go."), "Done.", tools=[AgentTool(desk)])

    it = Desk(root)
    await it.say("Go.")
    assert last_text(await it.answer((await it.only("order")).reply("pen"))) == "Done."
    assert seen_results(model_of(it.runner.agent).requests[-1]) == [{"result": "Ordered."}]


@pytest.mark.parametrize("in_workflow", [False, True])
async def test_what_people_are_asked_behind_a_handover_takes_control_from_no_agent(in_workflow: bool) -> None:
    """The call of the one that has handed over waits; the other one goes on."""

    def root() -> BaseAgent:
        calls = [call("pay", amount=1), call(HAND_TO, agent_name="clerk")]
        desk = by_turn("desk", calls, tools=[World().paying], sub_agents=[by_turn("clerk", "Here.")])
        return SequentialAgent(name="flow", sub_agents=[desk]) if in_workflow else desk

    it = Desk(root)
    assert last_text(await it.say("Go.")) == "Here."
    log = await it.events()
    assert log[-2].get_function_calls()[0].name == "adk_request_confirmation"
    assert await resumed(await cut(it, root, len(log) - 1)) == ["Here."]


class Silent(BaseAgent):
    """Runs its sub-agent, and says nothing itself."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, Silent])
async def test_one_that_has_handed_over_to_agents_that_are_done_takes_no_further_step(kind: type[BaseAgent]) -> None:
    """Though the one that it has handed over to has said nothing itself: the agents that it runs have."""

    def root() -> BaseAgent:
        clerk = kind(name="clerk", sub_agents=[by_turn("cashier", "Paid.")])
        return by_turn("desk", call(HAND_TO, agent_name="clerk"), "unreachable", sub_agents=[clerk])

    it = Desk(root)
    assert last_text(await it.say("Go.")) == "Paid."
    assert await resumed(it) == []


class Quiet(BaseAgent):
    """Has its sub-agents carry out what they have to, and keeps what they say last to itself."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for agent in self.sub_agents:
            async for event in agent.run_async(ctx):
                if not event.is_final_response() or event.long_running_tool_ids:
                    yield event


async def test_one_that_has_handed_over_goes_on_though_a_callback_behind_the_other_one_writes_state() -> None:
    """That says nothing, as little as the other one itself."""

    def note(callback_context: Context) -> None:
        callback_context.state["noted"] = True

    clerk = Quiet(name="clerk", after_agent_callback=note)
    it = Desk(lambda: by_turn("desk", call(HAND_TO, agent_name="clerk"), "Done.", sub_agents=[clerk]))
    assert last_text(await it.say("Go.")) == "Done."


@pytest.mark.parametrize("waits", [False, True])
async def test_one_that_has_handed_over_goes_on_without_beginning_anew_when_control_comes_back(waits: bool) -> None:
    """Whether the other one was cut off or waited: it has its delegates, and what comes before a turn is asked once."""
    asked: list[str] = []

    def root() -> BaseAgent:
        clerk = Quiet(name="clerk", sub_agents=[payer(World(), "cashier", 2)] if waits else [])
        helper = by_turn("helper", "Noted.", mode="single_turn")
        calls = call(HAND_TO, agent_name="clerk"), call("helper", request="Note it.")
        desk = by_turn("desk", *calls, "It is paid.", sub_agents=[clerk, helper])
        desk.before_agent_callback = lambda callback_context: asked.append("desk")
        return SequentialAgent(name="flow", sub_agents=[desk]) if waits else desk

    it = Desk(root)
    await it.say("Go.")
    if waits:
        await it.restart()
        said = await approve_all(it)
    else:
        it = await cut(it, root, 3)
        said = await it.say(invocation_id=(await it.events())[-1].invocation_id)
    assert ([event.text for event in said if event.text], asked) == (["Noted.", "It is paid."], ["desk"])


@pytest.mark.parametrize("handed_back", [False, True])
async def test_one_that_had_control_before_it_waited_goes_on_alone_if_its_answer_was_cut_off(handed_back: bool) -> None:
    """In a workflow too, where the log alone tells who had control: of the one that has called, at the time."""
    ended: list[str] = []

    def root() -> BaseAgent:
        clerk = by_turn("clerk", call(HAND_TO, agent_name="desk"))
        order, hand = call("order", what="pen"), call(HAND_TO, agent_name="clerk")
        calls = (hand, order) if handed_back else ([order, hand],)
        desk = by_turn("desk", *calls, "Done.", tools=[World().ordering], sub_agents=[clerk])
        for each in (desk, clerk):
            each.after_agent_callback = lambda callback_context: ended.append(callback_context.agent_name)
        return desk if handed_back else SequentialAgent(name="flow", sub_agents=[desk])

    it = Desk(root)
    await it.say("Go.")
    log = len(await it.events())
    await it.answer((await it.only("order")).reply("pen"))
    it = await cut(it, root, log + 1)
    ended.clear()
    assert (await resumed(it), ended) == (["Done."], ["desk"])


def show(tool_context: ToolContext) -> str:
    """Show something as it is."""
    tool_context.actions.skip_summarization = True
    return "shown"


async def test_one_that_waits_itself_ends_when_the_one_that_it_has_handed_over_to_is_done() -> None:
    """Its callbacks are asked, though it has nothing more to do."""
    ended: list[str] = []

    def root() -> BaseAgent:
        calls = [call("ship", what="pen"), call("show"), call(HAND_TO, agent_name="clerk")]
        clerk = by_turn("clerk", "Here.")
        desk = by_turn("desk", calls, "unreachable", tools=[World().shipping, show], sub_agents=[clerk])
        desk.after_agent_callback = lambda callback_context: ended.append("desk")
        return desk

    it = Desk(root)
    assert last_text(await it.say("Go.")) == "Here."
    it = await cut(it, root, len(await it.events()) - 1)
    ended.clear()
    assert (await resumed(it), ended) == (["Here."], ["desk"])


class Watched(LlmAgent):
    """Runs its flow with one more callback."""

    asked: ClassVar[list[str]] = []

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        flow = self.flow.with_callbacks(FlowCallbacks(before_model=(lambda **_: self.asked.append(self.name),)))
        async for event in flow.run(ctx):
            yield event


async def test_a_flow_that_code_of_an_agents_own_runs_has_its_callbacks_when_control_comes_back() -> None:
    def root() -> BaseAgent:
        return Watched(
            name="desk", model=ByTurn(call(HAND_TO, agent_name="clerk"), "Done."), sub_agents=[Quiet(name="clerk")]
        )

    it = Desk(root)
    assert last_text(await it.say("Go.")) == "Done."
    it = await cut(it, root, len(await it.events()) - 1)
    Watched.asked.clear()
    assert (await resumed(it), Watched.asked) == (["Done."], ["desk"])


async def test_a_handover_in_a_log_whose_calls_have_no_ids_gives_control_too() -> None:
    """As engines write it that leave the ids to the model."""

    def root() -> BaseAgent:
        return by_turn("desk", "unreachable", sub_agents=[by_turn("clerk", "Here.")])

    it = Desk(root)
    it.service.adopt(
        Session(
            id="s1",
            app_name="app",
            user_id="ann",
            events=[
                logged("user", "Go.", invocation_id="i1"),
                logged("desk", call(HAND_TO, agent_name="clerk"), invocation_id="i1"),
                logged("desk", result(None, HAND_TO, {}), invocation_id="i1", actions={"transfer_to_agent": "clerk"}),
            ],
        )
    )
    assert await resumed(it) == ["Here."]
