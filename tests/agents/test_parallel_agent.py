"""Agents side by side (cases area 20, decisions 22, 28 and 33)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from kit import Chat, agent, call, named_call, pending, requests_of, result, said, shown, story

from flowloom import (
    BaseAgent,
    Event,
    EventActions,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    ToolContext,
)


class Steps(BaseAgent):
    """Yields so many events, and notes when it was torn down."""

    count: int = 1
    log: Any  # shared, so no list that pydantic would copy

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        try:
            for n in range(self.count):
                await asyncio.sleep(0)
                yield Event(author=self.name, content=said(f"{self.name}{n}"), branch=ctx.branch)
        finally:
            await asyncio.sleep(0)
            self.log.append(self.name)


class Hanging(Steps):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        try:
            yield Event(author=self.name, content=said("started"), branch=ctx.branch)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.log.append(self.name)


class Broken(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        await asyncio.sleep(0)
        raise RuntimeError(f"{self.name} is down") from OSError("no power")
        yield Event()


async def test_all_events_of_all_children_come_each_on_its_branch() -> None:
    """N children x iterations | all events, each on its branch."""
    children = [Steps(name=f"c{n}", count=3, log=[]) for n in range(10)]
    events = await Chat(ParallelAgent(name="side", sub_agents=children)).say("go")
    assert len(events) == 30
    assert {(e.author, e.branch) for e in events} == {(f"c{n}", f"side.c{n}") for n in range(10)}
    for n in range(10):
        assert [e.text for e in events if e.author == f"c{n}"] == [f"c{n}{i}" for i in range(3)]


async def test_without_children_nothing_happens() -> None:
    assert await Chat(ParallelAgent(name="side")).say("go") == []


async def test_nested_parallel_agents_have_nested_branches() -> None:
    inner = ParallelAgent(name="inner", sub_agents=[agent("a", "x")])
    outer = ParallelAgent(name="outer", sub_agents=[inner])
    [only] = await Chat(outer).say("go")
    assert only.branch == "outer.inner.inner.a"


async def test_children_do_not_see_each_others_events() -> None:
    one, two = (agent(name, call("note"), f"{name} done", tools=[note]) for name in ("one", "two"))
    await Chat(ParallelAgent(name="side", sub_agents=[one, two])).say("go")
    for mine, other in ((one, "two"), (two, "one")):
        assert len(requests_of(mine)) == 2
        assert other not in " ".join(line for request in requests_of(mine) for line in shown(request))


def note() -> str:
    """Note."""
    return "noted"


async def test_a_branch_is_told_apart_from_one_whose_name_begins_alike() -> None:
    one, ten = agent("branch1", "secret of 1"), agent("branch12", call("note"), "done", tools=[note])
    row = SequentialAgent(name="row", sub_agents=[ParallelAgent(name="p", sub_agents=[one, ten])])
    await Chat(row).say("go")
    assert "secret" not in str([shown(r) for r in requests_of(ten)])


async def test_what_follows_the_parallel_agent_sees_all_branches() -> None:
    last = agent("last", "sum")
    side = ParallelAgent(name="side", sub_agents=[agent("one", "words of one"), agent("two", "words of two")])
    await Chat(SequentialAgent(name="row", sub_agents=[side, last])).say("go")
    seen = " ".join(shown(requests_of(last)[0]))
    assert "words of one" in seen
    assert "words of two" in seen


async def test_each_branch_reads_its_own_results() -> None:
    """Gemini tools (recorded) | per branch FRs >= FCs: no read-before-append race."""
    children = [agent(f"c{n}", *[call("note")] * 4, "done", tools=[note]) for n in range(5)]
    chat = Chat(ParallelAgent(name="side", sub_agents=children))
    await chat.say("go")
    for child in children:
        for step, request in enumerate(requests_of(child)):
            lines = shown(request)
            assert sum("note()" in line for line in lines) == step
            assert sum("note -> " in line for line in lines) == step
    for child in children:
        mine = [e for e in await chat.stored() if e.author == child.name]
        calls = [c.id for e in mine for c in e.get_function_calls()]
        assert calls == [r.id for e in mine for r in e.get_function_responses()]


async def test_state_of_an_event_is_there_before_the_child_goes_on() -> None:
    """State delta then after callback | callback reads the delta (append happened)."""
    seen: list[Any] = []

    class Writing(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, branch=ctx.branch, actions=EventActions(state_delta={self.name: 1}))

    def look(callback_context: Any) -> None:
        seen.append(callback_context.state.get(callback_context.agent_name))

    children = [Writing(name=f"c{n}", after_agent_callback=look) for n in range(4)]
    await Chat(ParallelAgent(name="side", sub_agents=children)).say("go")
    assert seen == [1, 1, 1, 1]


async def test_output_keys_of_all_branches_are_kept() -> None:
    children = [agent(f"c{n}", f"answer {n}", output_key=f"k{n}") for n in range(5)]
    chat = Chat(ParallelAgent(name="side", sub_agents=children))
    await chat.say("go")
    assert await chat.state() == {f"k{n}": f"answer {n}" for n in range(5)}


async def test_the_first_error_cancels_the_others_and_is_raised_when_they_have_ended() -> None:
    """One child error of 100 | terminates with error."""
    log: list[str] = []
    children: list[BaseAgent] = [Hanging(name=f"c{n}", log=log) for n in range(99)]
    chat = Chat(ParallelAgent(name="side", sub_agents=[*children, Broken(name="broken")]))
    with pytest.raises(RuntimeError, match="broken is down") as caught:
        await chat.say("go")
    assert sorted(log) == sorted(child.name for child in children)
    assert isinstance(caught.value.__cause__, OSError)
    notes = " ".join(caught.value.__notes__)
    assert "broken" in notes
    assert "side" in notes


async def test_decision_22_a_consumer_that_stops_early_waits_for_every_teardown() -> None:
    """Consumer stops early | returns only after every child's teardown finished."""
    log: list[str] = []
    children = [Hanging(name=f"c{n}", log=log) for n in range(10)]
    chat = Chat(ParallelAgent(name="side", sub_agents=children))
    before = asyncio.all_tasks()
    stream = chat.runner.run_async(user_id="ann", session_id="s1", new_message="go")
    async for _ in stream:
        break
    await stream.aclose()
    started = set(log)
    assert started
    assert asyncio.all_tasks() == before


async def test_decision_22_a_cancelled_run_ends_all_children() -> None:
    """Ctx cancelled | terminates, nothing left behind."""
    log: list[str] = []
    children = [Hanging(name=f"c{n}", log=log) for n in range(10)]
    chat = Chat(ParallelAgent(name="side", sub_agents=children))
    before = asyncio.all_tasks()
    started = asyncio.Event()

    async def consume() -> None:
        count = 0
        async for _ in chat.runner.run_async(user_id="ann", session_id="s1", new_message="go"):
            count += 1
            if count == len(children):
                started.set()

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(log) == sorted(child.name for child in children)
    assert asyncio.all_tasks() == before


async def test_decision_33_escalation_ends_that_branch_and_siblings_finish() -> None:
    def leave(tool_context: ToolContext) -> str:
        """Leave."""
        tool_context.actions.escalate = True
        tool_context.actions.skip_summarization = True
        return "left"

    quitting = LoopAgent(name="quitting", sub_agents=[agent("quitter", call("leave"), "never", tools=[leave])])
    steady = agent("steady", call("note"), call("note"), "finished", tools=[note])
    events = await Chat(ParallelAgent(name="side", sub_agents=[quitting, steady])).say("go")
    assert "steady: finished" in story(events)
    assert "quitter: never" not in story(events)


async def test_decision_33_what_follows_in_that_branch_does_not_run() -> None:
    class Quitting(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, content=said("q"), branch=ctx.branch, actions=EventActions(escalate=True))

    row = SequentialAgent(name="row", sub_agents=[Quitting(name="q"), agent("never", "never")])
    steady = agent("steady", call("note"), "finished", tools=[note])
    events = await Chat(ParallelAgent(name="side", sub_agents=[row, steady])).say("go")
    assert {e.author for e in events} == {"q", "steady"}
    assert "steady: finished" in story(events)


async def test_decision_33_a_loop_around_ends_when_the_siblings_have_finished() -> None:
    class Quitting(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, branch=ctx.branch, actions=EventActions(escalate=True))

    side = ParallelAgent(name="side", sub_agents=[Quitting(name="q"), agent("steady", "s", "s2")])
    loop = LoopAgent(name="loop", max_iterations=2, sub_agents=[side, agent("after", "a", "a2")])
    events = await Chat(loop).say("go")
    assert [e.author for e in events if e.text] == ["steady"]


async def test_decision_28_only_the_branch_that_asked_is_resumed() -> None:
    def ask() -> None:
        """Ask."""

    asking = agent("asking", named_call("c1", "ask"), "asked", tools=[LongRunningFunctionTool(ask)])
    other = agent("other", "once")
    last = agent("last", "summary", "too early")
    row = SequentialAgent(name="row", sub_agents=[ParallelAgent(name="side", sub_agents=[asking, other]), last])
    chat = Chat(row)
    events = await chat.say("go")
    assert [c.id for c in pending(events)] == ["c1"]
    assert requests_of(last) == []
    assert story(await chat.answer(result("c1", "ask", {"ok": 1}))) == ["asking: asked", "last: summary"]
    assert len(requests_of(other)) == 1


async def test_decision_28_two_branches_that_wait_are_answered_one_after_the_other() -> None:
    def ask() -> None:
        """Ask."""

    tools: list[Any] = [LongRunningFunctionTool(ask)]
    one = agent("one", named_call("c1", "ask"), "one asked", tools=tools)
    two = agent("two", named_call("c2", "ask"), "two asked", tools=tools)
    last = agent("last", "summary", "never")
    row = SequentialAgent(name="row", sub_agents=[ParallelAgent(name="side", sub_agents=[one, two]), last])
    chat = Chat(row)
    await chat.say("go")
    first = await chat.answer(result("c1", "ask", {"n": 1}))
    assert story(first) == ["one: one asked"]
    assert story(await chat.answer(result("c2", "ask", {"n": 2}))) == ["two: two asked", "last: summary"]


async def test_one_agent_in_two_branches_keeps_its_histories_apart() -> None:
    shared = LlmAgent(name="shared", model=agent("x", "one", "two").model)
    left = SequentialAgent(name="left", sub_agents=[shared])
    right = SequentialAgent(name="right", sub_agents=[shared])
    events = await Chat(ParallelAgent(name="side", sub_agents=[left, right])).say("go")
    assert {e.branch for e in events} == {"side.left", "side.right"}
