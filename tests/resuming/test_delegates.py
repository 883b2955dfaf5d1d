"""What comes of the calls of sub-agents that a run has left open, and of what was called beside them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from kit import Chat, agent, event, open_calls, pending, story, user
from waiting.desk import Desk, World, by_turn, last_text
from waiting.office import approve_all, payer

from flowloom import (
    AgentTool,
    BaseAgent,
    Event,
    Flow,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LongRunningFunctionTool,
    SequentialAgent,
    ToolContext,
)
from flowloom.testing import call

from .test_turns import has_looked, without


def asks_twice(name: str, world: World, **fields: Any) -> LlmAgent:
    """An agent that has to ask a person for two payments, one after the other."""
    return by_turn(name, call("pay", amount=1), call("pay", amount=2), f"{name} paid.", tools=[world.paying], **fields)


async def test_a_single_turn_that_waits_again_is_waited_for_again() -> None:
    """Nobody else says anything before."""

    def root() -> BaseAgent:
        expert = asks_twice("expert", World(), mode="single_turn")
        desk = by_turn("desk", call("expert", request="Pay."), "Done.", sub_agents=[expert])
        return SequentialAgent(name="flow", sub_agents=[desk, by_turn("after", "After.")])

    it = Desk(root)
    await it.say("Go.")
    assert {each.author for each in await approve_all(it)} == {"expert"}
    assert [each.text for each in await approve_all(it) if each.text][-2:] == ["Done.", "After."]


async def test_a_task_beside_an_agent_as_a_tool_that_waits_again_is_not_begun_before_it() -> None:
    """As in the run in which both were called."""

    def root() -> BaseAgent:
        calls = [call("cashier", request="Pay."), call("chore", request="Clean.")]
        chore = by_turn("chore", call("finish_task", result="clean"), mode="task")
        return by_turn("desk", calls, "Done.", tools=[AgentTool(asks_twice("cashier", World()))], sub_agents=[chore])

    it = Desk(root)
    await it.say("Go.")
    assert "chore" not in {each.author for each in await approve_all(it)}
    events = await approve_all(it)
    assert "chore" in {each.author for each in events}
    assert last_text(events) == "Done."


async def test_a_run_that_fails_in_a_task_leaves_no_call_of_it_open() -> None:
    chore = agent("chore", ValueError("boom"), mode="task")
    chat = Chat(agent("desk", call("chore", request="Clean."), sub_agents=[chore]))
    with pytest.raises(ValueError, match="boom"):
        await chat.say("Go.")
    assert open_calls(await chat.stored()) == set()


class Twice(BaseAgent):
    """Runs its sub-agent, and again whatever came of that."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for _ in range(2):
            async for each in self.sub_agents[0].run_async(ctx):
                yield each


async def test_a_single_turn_that_waits_is_not_begun_again_when_its_coordinator_is_run_again() -> None:
    def tick(ctx: InvocationContext, request: LlmRequest) -> Event:
        return event("clock", "Tick.")

    expert = payer(World(), "expert", 1, mode="single_turn")
    flow = Flow().with_processor(tick, before="contents")
    desk = agent("desk", call("expert", request="Pay."), "Meanwhile.", sub_agents=[expert], flow=flow)
    events = await Chat(Twice(name="root", sub_agents=[desk])).say("Go.")
    assert last_text(events) == "Meanwhile."
    assert len(pending(events)) == 1


@pytest.mark.parametrize("beside", [[], [call("chore", request="Clean.")]], ids=["alone", "and a task"])
async def test_a_handover_beside_a_single_turn_that_waits_comes_behind_all_that_was_called(beside: list[Any]) -> None:
    def hand_on(tool_context: ToolContext) -> str:
        tool_context.actions.transfer_to_agent = "other"
        return "handed on"

    def root() -> BaseAgent:
        agents = [
            payer(World(), "expert", 1, mode="single_turn"),
            by_turn("chore", call("finish_task", result="clean"), mode="task"),
            by_turn("other", "Here I am."),
        ]
        calls = [call("hand_on"), call("expert", request="Pay."), *beside]
        return by_turn("desk", calls, "unreachable", tools=[hand_on], sub_agents=agents)

    it = Desk(root)
    assert last_text(await it.say("Go.")) == ""
    said = await approve_all(it)
    answered = [each.name for told in said for each in told.get_function_responses()]
    assert answered == ["pay", "expert", *(["finish_task", "chore"] if beside else [])]
    assert last_text(said) == "Here I am."


async def test_a_processor_hands_over_behind_a_single_turn_that_is_resumed() -> None:
    """In the step that the run which is resumed begins with."""

    def route(ctx: InvocationContext, request: LlmRequest) -> Event | None:
        first = ctx.resumed and ctx.once("noon")
        return event("clock", "It is noon.", actions={"transfer_to_agent": "other"}) if first else None

    def root() -> BaseAgent:
        agents = [payer(World(), "expert", 1, mode="single_turn"), by_turn("other", "Here I am.")]
        flow = Flow().with_processor(route, before="contents")
        return by_turn("desk", call("expert", request="Pay."), "unreachable", sub_agents=agents, flow=flow)

    it = Desk(root)
    await it.say("Go.")
    assert last_text(await approve_all(it)) == "Here I am."


async def test_words_beside_the_approval_of_an_agent_tool_that_then_waits_are_answered_once() -> None:
    """Also where another call is made again behind it."""

    def ask(tool: Any, tool_context: ToolContext, **_: Any) -> Any:
        if tool.name != "inner" or tool_context.tool_confirmation is not None:
            return None
        tool_context.request_confirmation(hint="May it?")
        return {"status": "asked"}

    def root() -> BaseAgent:
        world = World()
        inner = by_turn("inner", call("ship", what="pen"), "On its way.", tools=[world.shipping])
        calls = [call("look", what="up"), call("inner", request="x")]
        return by_turn("desk", calls, "Fine.", tools=[world.look, AgentTool(inner)], before_tool_callback=ask)

    it = Desk(root)
    await it.say("Go.")
    await without(it, has_looked)
    events = await it.say(user((await it.only()).approve(), "Please."))
    assert story(events)[-2:] == ["desk: look -> {'seen': 'up'}", "desk: Fine."]
    assert last_text(events[:-1]) == "On its way."


async def test_a_tool_that_is_named_like_a_sub_agent_does_not_call_it() -> None:
    """Only those agents are called that have the mode for it."""

    def root() -> BaseAgent:
        world = World()
        calls = [call("clerk"), call("order", what="pen")]
        clerk = LongRunningFunctionTool(lambda: None, name="clerk")
        return by_turn("desk", calls, "Done.", tools=[clerk, world.ordering], sub_agents=[by_turn("clerk", "Me?")])

    it = Desk(root)
    await it.say("Go.")
    assert await it.answer((await it.only("order")).reply("pen")) == []
