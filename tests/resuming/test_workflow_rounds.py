"""A run that goes on in a workflow: who of its members is done, who goes on, and who comes next."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from kit import WHERE, Chat, Ran, agent, collect, event, hand_to, named_call, result, story

from flowloom import (
    BaseAgent,
    Event,
    InvocationContext,
    LongRunningFunctionTool,
    SequentialAgent,
    WorkflowAgent,
)
from flowloom.agents import FinishedMember

ran = Ran()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


def pay() -> str:
    """Pay."""
    ran.append("pay")
    return "paid"


def ship() -> None:
    """Ship something, which takes days."""


async def resumed(root: BaseAgent, log: Sequence[Event]) -> list[Event]:
    """What a run gives that goes on with the invocation of this log."""
    chat = Chat(root)
    session = await chat.runner.session_service.create_session(app_name="app", **WHERE)
    for each in log:
        each.invocation_id = log[0].invocation_id or "e-1"
        await chat.runner.session_service.append_event(session, each)
    return await collect(chat.runner.run_async(**WHERE, invocation_id=log[0].invocation_id))


class Stages(WorkflowAgent):
    """Runs its members in stages, those of one at once; a stage of one alone."""

    stages: list[list[str]]

    def following(self, latest: FinishedMember | None, ctx: InvocationContext) -> Any:
        done = -1 if latest is None else next(i for i, names in enumerate(self.stages) if latest.agent.name in names)
        if done + 1 == len(self.stages):
            return None
        members = [each for each in self.sub_agents if each.name in self.stages[done + 1]]
        return members if len(members) > 1 else members[0]


async def test_wherever_it_was_cut_off_each_member_runs_once() -> None:
    """Several at once, then others at once, then one alone: those of an earlier stage are done."""

    def root() -> Stages:
        return Stages(name="root", stages=[["a", "b"], ["c", "d"], ["e"]], sub_agents=[agent(n, n) for n in "abcde"])

    chat = Chat(root())
    await chat.say("go")
    log = await chat.stored()
    paths = sorted(each.node_info.path for each in log if each.node_info is not None)
    assert paths == ["root@1/a@1", "root@1/b@1", "root@1/c@2", "root@1/d@2", "root@1/e@2"]
    for cut in range(1, len(log) + 1):
        events = await resumed(root(), log[:cut])
        assert sorted(each.text for each in [*log[1:cut], *events]) == ["a", "b", "c", "d", "e"]


async def test_its_callback_is_asked_if_it_was_cut_off_before_any_member() -> None:
    """Its turn had not begun."""
    root = SequentialAgent(name="root", sub_agents=[agent("a", "a")], before_agent_callback=ran.gives("before"))
    assert story(await resumed(root, [event("user", "go")])) == ["a: a"]
    assert ran == ["before"]


async def test_a_member_that_is_gone_since_is_left_out() -> None:
    chat = Chat(SequentialAgent(name="root", sub_agents=[agent("old", "old"), agent("a", "a")]))
    await chat.say("go")
    events = await resumed(SequentialAgent(name="root", sub_agents=[agent("a", "again")]), (await chat.stored())[:2])
    assert story(events) == ["a: again"]


class Silent(BaseAgent):
    """Has something shipped, and says no more."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ran.append(self.name)
        if not any(each.author == self.name for each in ctx.session.events):
            yield event(self.name, named_call("o1", "ship"), long_running_tool_ids={"o1"}, branch=ctx.branch)


class Quiet(BaseAgent):
    """Says nothing."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ran.append(self.name)
        return
        yield


async def test_who_handed_over_to_a_workflow_takes_no_step_because_its_last_member_says_nothing() -> None:
    """What the one before it has said is the last word."""
    flow = SequentialAgent(name="flow", sub_agents=[agent("a", "a"), Quiet(name="quiet")])
    assert story(await Chat(agent("root", hand_to("flow"), sub_agents=[flow])).say("go"))[-1] == "a: a"
    assert ran == ["quiet"]


async def test_a_member_that_has_used_an_answer_without_a_word_does_not_run_again() -> None:
    """One behind it has spoken since."""

    def root(*answers: Any) -> BaseAgent:
        return SequentialAgent(name="root", sub_agents=[Silent(name="first"), agent("last", *answers, tools=[pay])])

    chat = Chat(root(named_call("p1", "pay"), "done"))
    await chat.say("go")
    await chat.answer(result("o1", "ship", {}))
    log = await chat.stored()
    cut = next(at for at, each in enumerate(log, 1) if each.author == "last")
    ran.clear()
    assert story(await resumed(root("done"), log[:cut]))[-1] == "last: done"
    assert ran == ["pay"]


async def test_a_report_that_no_run_has_taken_up_reaches_the_member_that_it_is_for() -> None:
    """Though its workflow went on before: the member behind it is done."""
    first = agent("first", named_call("o1", "ship"), "on its way", "arrived", tools=[LongRunningFunctionTool(ship)])
    chat = Chat(SequentialAgent(name="root", sub_agents=[first, agent("last", "all told")]))
    await chat.say("go")
    await chat.answer(result("o1", "ship", {"status": "packed"}))
    log = await chat.stored()
    report = event("user", result("o1", "ship", {"status": "there"}), invocation_id=log[0].invocation_id)
    await chat.runner.session_service.append_event(await chat.session(), report)
    assert story(await chat.say(None, invocation_id=log[0].invocation_id)) == ["first: arrived"]


async def test_a_member_goes_on_in_the_calls_of_a_log_without_node_paths() -> None:
    """Which other engines write: authors tell whose they are. Its events are of the first round."""
    root = SequentialAgent(name="root", sub_agents=[agent("a", "again"), agent("b", "done", tools=[pay])])
    log = [event("user", "go"), event("a", "a"), event("b", named_call("p1", "pay"))]
    events = await resumed(root, log)
    assert (story(events)[-1], ran) == ("b: done", ["pay"])
    assert {each.node_info.path for each in events if each.node_info is not None} == {"root@1/b@1"}
