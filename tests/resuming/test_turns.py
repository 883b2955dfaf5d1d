"""Where the turns of a resumed run stand: they go on, wait, or are over; and which callbacks are asked again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from auth.desk import API_KEY, ASKED, Calendar
from kit import event as logged
from kit import named_call, result, said
from waiting.desk import ByTurn, Desk, World, by_turn
from waiting.office import payer

from flowloom import (
    AgentTool,
    BaseAgent,
    Context,
    Event,
    InMemorySessionService,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    ParallelAgent,
    RunConfig,
    Session,
    ToolContext,
)
from flowloom.testing import call

from .test_handovers import cut, resumed

asked: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    asked.clear()


def before(callback_context: Context) -> None:
    asked.append(f"before {callback_context.agent_name}")


def after(callback_context: Context) -> None:
    asked.append(f"after {callback_context.agent_name}")


def caller(*parts: Any, world: World, **fields: Any) -> LlmAgent:
    """An agent that calls at once what is named here, and an agent as a tool that has to ask a person."""
    cashier = AgentTool(payer(World(), "cashier", 1))
    calls = [*parts, call("cashier", request="Pay.")]
    return by_turn("a", calls, "unreachable", tools=[world.look, world.ordering, cashier], **fields)


def beside(build: Callable[[], BaseAgent], **fields: Any) -> Callable[[], BaseAgent]:
    """That agent, and beside it `b`, which pays 2 once a person has approved."""
    return lambda: ParallelAgent(name="both", sub_agents=[build(), payer(World(), "b", 2, "B.", **fields)])


async def approve(it: Desk, amount: int) -> list[str]:
    """What is said when a person approves the payment of so much."""
    (found,) = [each for each in await it.waiting() if (each.args or {}).get("amount") == amount]
    return sorted(event.text for event in await it.answer(found.approve()) if event.text)


async def without(it: Desk, lost: Callable[[Event], object]) -> None:
    """Let another process go on with a log that some events have not reached any more."""
    session = await it.session()
    kept = [event for event in session.events if not lost(event)]
    assert len(kept) < len(session.events)
    it.service = InMemorySessionService()
    it.service.adopt(Session.model_validate({**session.to_wire(), "events": [event.to_wire() for event in kept]}))
    it.runner = it.another_runner()


def has_looked(event: Event) -> bool:
    return any(each.name == "look" for each in event.get_function_responses())


async def test_a_branch_that_was_cut_off_goes_on_beside_the_one_that_is_answered_without_beginning_anew() -> None:
    """The log shows that what comes before its turn was asked."""
    world = World()
    build = beside(
        lambda: by_turn("a", call("look", what="up"), "A.", tools=[world.look], before_agent_callback=before)
    )
    it = Desk(build)
    await it.say("Go.")
    await without(it, lambda event: event.author == "a" and not event.get_function_calls())
    assert await approve(it, 2) == ["A.", "B."]
    assert (asked, world.ran) == (["before a"], ["look up"] * 2)


async def test_a_branch_that_waits_waits_on_beside_the_one_that_is_answered() -> None:
    it = Desk(beside(lambda: caller(world=World(), before_agent_callback=before)))
    await it.say("Go.")
    assert await approve(it, 2) == ["B."]
    assert asked == ["before a"]


async def test_a_branch_that_is_done_is_over_beside_the_one_that_is_answered() -> None:
    it = Desk(beside(lambda: by_turn("a", "A.", after_agent_callback=after)))
    await it.say("Go.")
    assert await approve(it, 2) == ["B."]
    assert asked == ["after a"]


async def test_a_call_that_was_cut_off_is_made_again_beside_an_agent_that_waits() -> None:
    """Also by a run that an answer to another agent begins."""
    world = World()
    it = Desk(beside(lambda: caller(call("look", what="up"), world=world)))
    await it.say("Go.")
    await without(it, has_looked)
    assert await approve(it, 2) == ["B."]
    assert world.ran == ["look up"] * 2


async def test_an_agent_whose_answer_was_not_carried_out_begins_anew_like_the_one_that_is_answered_now() -> None:
    build = beside(lambda: payer(World(), "a", 1, "A.", before_agent_callback=before), before_agent_callback=before)
    it = Desk(build)
    await it.say("Go.")
    log = len(await it.events())
    await approve(it, 1)
    it = await cut(it, build, log + 1)
    asked.clear()
    assert await approve(it, 2) == ["A.", "B."]
    assert sorted(asked) == ["before a", "before b"]


async def test_agents_that_are_answered_one_after_the_other_go_on_together_if_no_answer_was_carried_out() -> None:
    build = beside(lambda: payer(World(), "a", 1, "A."))
    it = Desk(build)
    await it.say("Go.")
    log = len(await it.events())
    await approve(it, 1)
    it = await cut(it, build, log + 1)
    await approve(it, 2)
    assert sorted(await resumed(await cut(it, build, log + 2))) == ["A.", "B."]


async def test_a_credential_that_was_not_asked_for_is_asked_for_beside_an_agent_that_waits() -> None:
    """Though the run was cut off between the tool's call and the question."""

    def root() -> BaseAgent:
        calls = [call("read_calendar", day="today"), call("cashier", request="Pay.")]
        tools = [Calendar().tool(API_KEY), AgentTool(payer(World(), "cashier", 1))]
        return by_turn("a", calls, "unreachable", tools=tools)

    it = Desk(root)
    await it.say("Go.")
    log = await it.events()
    [at] = [index for index, event in enumerate(log) if any(each.name == ASKED for each in event.get_function_calls())]
    await without(it, lambda event: event.id == log[at].id)
    assert "credential" not in {each.kind for each in await it.waiting()}
    assert await resumed(it) == []
    assert "credential" in {each.kind for each in await it.waiting()}


async def test_what_a_tool_asks_next_is_asked_beside_an_agent_that_waits() -> None:
    """Though the run was cut off between the tool's call and the question."""

    def fill_in(tool_context: ToolContext) -> list[Any]:
        """Ask for one thing after the other."""
        return [tool_context.request_input("Name?"), tool_context.request_input("Age?")]

    def root() -> BaseAgent:
        cashier = AgentTool(payer(World(), "cashier", 1))
        return by_turn("a", [call("fill_in"), call("cashier", request="Pay.")], "unreachable", tools=[fill_in, cashier])

    it = Desk(root)
    await it.say("Go.")
    log = len(await it.events())
    await it.answer((await it.only("fill_in")).reply("Ann"))
    it = await cut(it, root, log + 2)
    assert {each.name for each in await it.waiting()} == {"pay"}
    assert await resumed(it) == []
    assert {each.name for each in await it.waiting()} == {"pay", "fill_in"}


@pytest.mark.parametrize("first", [[call("screen"), call("look", what="up")], [call("order", what="pen")]])
async def test_an_agent_that_runs_as_a_tool_and_waits_is_not_the_clients_to_execute(first: list[Any]) -> None:
    """The run had stopped before it, and was resumed; when it is resumed again, there is nothing to do."""
    config = RunConfig(pause_on_tool_calls=["screen", "look", "order"])
    it = Desk(lambda: caller(*first, world=World(), after_agent_callback=after))
    where: dict[str, Any] = {"invocation_id": (await it.say("Go.", run_config=config))[0].invocation_id}
    await it.say(**where, run_config=config)
    assert [each.name for each in await it.waiting()] == [first[0].function_call.name, "pay"]
    asked.clear()
    assert (await it.say(**where, run_config=config), asked) == ([], [])


async def test_what_an_agent_that_runs_as_a_tool_has_said_comes_before_what_is_behind_its_caller_s_turn() -> None:
    """Also beside a call that has begun and written to the state."""

    def begin(tool_context: ToolContext) -> None:
        tool_context.state["begun"] = True

    tools = [LongRunningFunctionTool(begin), AgentTool(payer(World(), "cashier", 1))]
    calls = [call("begin"), call("cashier", request="Pay.")]
    it = Desk(lambda: by_turn("a", calls, tools=tools, after_agent_callback=lambda **_: said("Later.")))
    events = await it.say("Go.")
    assert [each.author for each in events][-2:] == ["cashier", "a"]


async def test_a_callback_that_an_answer_was_followed_by_is_not_asked_again() -> None:
    """Though the agent has said nothing since: it waits for another answer."""

    def counted(callback_context: Context) -> None:
        after(callback_context)
        callback_context.state["asked"] = len(asked)

    calls = [call("order", what="pen"), call("order", what="ink")]
    it = Desk(lambda: by_turn("a", calls, "unreachable", tools=[World().ordering], after_agent_callback=counted))
    await it.say("Go.")
    await it.answer((await it.waiting())[0].reply("pen"))
    asked.clear()
    assert (await resumed(it), asked) == ([], [])


class Caller(BaseAgent):
    """Tells of a call and its result, and then says something."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(content=said(named_call("c1", "look")))
        yield Event(author=self.name, content=said(result("c1", "look", {})))
        yield Event(content=said("Seen."))


async def test_an_agent_with_code_of_its_own_begins_anew_unless_it_was_done() -> None:
    it = Desk(lambda: Caller(name="a", before_agent_callback=before))
    await it.say("Go.")
    assert await resumed(it) == []
    await without(it, lambda event: event.text == "Seen.")
    assert await resumed(it) == ["Seen."]
    assert asked == ["before a"] * 2


class Helped(LlmAgent):
    """Runs its flow, and then its sub-agent."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.flow.run(ctx):
            yield event
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


async def test_an_agent_that_runs_its_flow_in_code_of_its_own_is_asked_once_what_comes_behind_its_turn() -> None:
    """Not once more by the flow, which was over."""
    helper = call("look", what="up"), "H."
    it = Desk(
        lambda: Helped(
            name="a",
            model=ByTurn("A."),
            sub_agents=[by_turn("helper", *helper, tools=[World().look])],
            after_agent_callback=after,
        )
    )
    await it.say("Go.")
    await without(it, lambda event: event.text == "H.")
    asked.clear()
    assert (await resumed(it), asked) == (["H."], ["after a"])


async def test_a_flow_that_code_of_an_agents_own_runs_is_over_though_an_agent_behind_it_is_answered() -> None:
    def both() -> BaseAgent:
        helped = Helped(name="a", model=ByTurn("A.", "A again."), sub_agents=[payer(World(), "b", 2, "B.")])
        return ParallelAgent(name="both", sub_agents=[helped])

    it = Desk(both)
    await it.say("Go.")
    assert await approve(it, 2) == ["B."]


async def test_an_agent_that_waits_in_an_invocation_without_a_message_does_not_begin_anew() -> None:
    it = Desk(lambda: by_turn("a", "unreachable", tools=[World().ordering], before_agent_callback=before))
    ordered = named_call("c1", "order", what="pen")
    events = [logged("a", ordered, long_running_tool_ids=["c1"], invocation_id="i1")]
    it.service.adopt(Session(id="s1", app_name="app", user_id="ann", events=events))
    assert (await resumed(it), asked) == ([], [])
