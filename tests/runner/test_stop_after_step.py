"""Runs that are cancelled or paused when their step is done, and go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kit import Chat, agent, approve, named_call, pending, result, said, story

from flowloom import (
    AgentTool,
    BaseAgent,
    Event,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    RunHandle,
    RunResult,
    SequentialAgent,
    ToolContext,
)
from flowloom.testing import FunctionModel, call
from runner.situations import ByTurn, Gate, Gated, ended_events, go_on, held, legal, nothing_left


def searcher(name: str, gate: Gate | None = None, **fields: Any) -> LlmAgent:
    """An agent that looks twice and then answers; the first look is at the gate."""
    seen = []

    async def look(at: str, tool_context: ToolContext) -> dict[str, bool]:
        """Look."""
        seen.append(name)
        if gate is not None and len(seen) == 1:
            await gate()
        tool_context.state[f"{name}:{at}"] = True
        return {"seen": True}

    model = ByTurn([call("look", at="hills"), call("look", at="sea")], call("look", at="sky"), f"{name} is done")
    return LlmAgent(name=name, model=model, tools=[look], output_key=f"{name}:said", **fields)


def order() -> None:
    """Order: the result comes later."""


def loop_of(gate: Gate) -> LoopAgent:
    return LoopAgent(name="loop", max_iterations=2, sub_agents=[searcher("a", gate), searcher("b")])


def transfer_to(gate: Gate) -> LlmAgent:
    helper = searcher("helper", gate)
    return LlmAgent(name="root", model=ByTurn(call("transfer_to_agent", agent_name="helper"), "x"), sub_agents=[helper])


SHAPES: dict[str, Callable[[Gate], Any]] = {
    "one agent": lambda gate: searcher("a", gate),
    "a sequence": lambda gate: SequentialAgent(name="row", sub_agents=[searcher("a", gate), searcher("b")]),
    "parallel branches": lambda gate: ParallelAgent(name="side", sub_agents=[searcher("a", gate), searcher("b")]),
    "a loop": loop_of,
    "a transfer": transfer_to,
    "a sequence in a branch": lambda gate: ParallelAgent(
        name="side",
        sub_agents=[
            SequentialAgent(name="row", sub_agents=[searcher("a", gate), searcher("b")]),
            searcher("c"),
        ],
    ),
    "branches in a sequence": lambda gate: SequentialAgent(
        name="row",
        sub_agents=[
            ParallelAgent(name="side", sub_agents=[searcher("a", gate), searcher("b")]),
            searcher("c"),
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_cancelled_after_the_step_the_tools_finish_and_no_model_is_asked(shape: str) -> None:
    gate = Gate()
    chat = Chat(SHAPES[shape](gate))
    run = held(chat)
    await gate.reached.wait()
    before = len([e for e in await chat.stored() if e.get_function_calls() or e.text])
    run.cancel("after_step")
    gate.open.set()
    result = await run.result()
    assert (result.status, result.error) == ("cancelled", None)
    events = await chat.stored()
    legal(events)
    errors = [a for e in events for a in e.get_function_responses() if a.response and "error" in a.response]
    assert errors == []
    assert len([e for e in events if e.get_function_calls() or e.text]) == before
    assert ended_events(events) == ended_events(result.events) == ["cancelled"]
    assert result.events[-1].id == events[-1].id
    nothing_left()


async def undisturbed(shape: str) -> Chat:
    gate = Gate()
    gate.open.set()
    chat = Chat(SHAPES[shape](gate))
    await chat.say("go")
    return chat


async def stopped(run: RunHandle, how: str, gate: Gate) -> RunResult:
    """What comes of a run that is paused, or cancelled after its step, before the gate is opened."""
    run.pause() if how == "pause" else run.cancel("after_step")
    gate.open.set()
    result = await run.result()
    assert result.status == ("paused" if how == "pause" else "cancelled")
    return result


def by_branch(events: Any) -> dict[str, list[str]]:
    """The story of each branch."""
    branches: dict[str, list[str]] = {}
    for event in events:
        branches.setdefault(event.branch or "", []).extend(story([event]))
    return branches


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_paused_run_goes_on_to_the_same_end(shape: str) -> None:
    """Paused while the first tool works, and whenever it has gone on for a while."""
    whole = await undisturbed(shape)
    gate = Gate()
    chat = Chat(SHAPES[shape](gate))
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    paused = await run.result()
    assert (paused.status, paused.error, paused.pending) == ("paused", None, [])
    legal(await chat.stored())
    assert ended_events(await chat.stored()) == []
    await go_on(chat, run.invocation_id)
    assert by_branch(await chat.stored()) == by_branch(await whole.stored())
    assert await chat.state() == await whole.state()


@pytest.mark.parametrize("shape", SHAPES)
async def test_paused_at_any_time_again_and_again_it_comes_to_the_same_end(shape: str) -> None:
    whole = await undisturbed(shape)
    for turns in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55):
        gate = Gate()
        gate.open.set()
        chat = Chat(SHAPES[shape](gate))
        run = held(chat)
        legs = 0
        while True:
            for _ in range(turns):
                await asyncio.sleep(0)
            run.pause()
            result = await run.result()
            legal(await chat.stored())
            if result.status == "final":
                break
            assert result.status == "paused"
            legs += 1
            if legs > 30 or turns < 5:  # so early nothing may ever happen
                await go_on(chat, run.invocation_id)
                break
            run = chat.runner.start(user_id="ann", session_id="s1", invocation_id=run.invocation_id)
        assert by_branch(await chat.stored()) == by_branch(await whole.stored()), turns
        assert await chat.state() == await whole.state()


@pytest.mark.parametrize("shape", ["a sequence", "a loop", "branches in a sequence"])
@pytest.mark.parametrize("how", ["pause", "cancel"])
async def test_stopped_during_the_last_answer_of_a_member_those_after_it_do_not_run(shape: str, how: str) -> None:
    """The member that speaks finishes; the workflow is not over for that."""
    gate = Gate()
    first = LlmAgent(name="a", model=Gated("a", gate=gate), output_key="a")
    last = agent("b", "b", output_key="b")
    root: Any = {
        "a sequence": SequentialAgent(name="row", sub_agents=[first, last]),
        "a loop": LoopAgent(name="loop", max_iterations=1, sub_agents=[first, last]),
        "branches in a sequence": SequentialAgent(
            name="row", sub_agents=[ParallelAgent(name="side", sub_agents=[first]), last]
        ),
    }[shape]
    chat = Chat(root)
    run = held(chat)
    await gate.reached.wait()
    await stopped(run, how, gate)
    assert await chat.state() == {"a": "a"}
    await go_on(chat, run.invocation_id)
    assert await chat.state() == {"a": "a", "b": "b"}


async def test_paused_during_its_last_answer_a_run_is_over() -> None:
    gate = Gate()
    run = held(Chat(LlmAgent(name="root", model=Gated("hi", gate=gate))))
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "final"


async def test_paused_within_a_custom_agent_its_after_callback_is_asked_once_it_is_over() -> None:
    class Around(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncIterator[Event]:  # type: ignore[override]
            async for event in self.sub_agents[0].run_async(ctx):
                yield event

    gate, asked = Gate(), []
    inner = searcher("a", gate)
    chat = Chat(Around(name="around", sub_agents=[inner], after_agent_callback=lambda **_: asked.append("after")))
    run = held(chat)
    await gate.reached.wait()
    await stopped(run, "pause", gate)
    assert asked == []
    await go_on(chat, run.invocation_id)
    assert asked == ["after"]


async def test_a_turn_that_is_over_while_another_branch_has_stopped_has_its_after_callback() -> None:
    first, last, asked = Gate(), Gate(), []

    async def tell(tool_context: ToolContext) -> str:
        """Tell the user."""
        tool_context.actions.skip_summarization = True
        await last()
        return "told"

    telling = agent("b", call("tell"), tools=[tell], after_agent_callback=lambda **_: asked.append("after"))
    run = held(Chat(ParallelAgent(name="side", sub_agents=[searcher("a", first), telling])))
    await asyncio.gather(first.reached.wait(), last.reached.wait())
    run.pause()
    first.open.set()
    for _ in range(100):  # until the searcher has stopped
        await asyncio.sleep(0)
    last.open.set()
    await run.result()
    assert asked == ["after"]


async def test_paused_before_it_has_begun_the_message_is_kept_for_later() -> None:
    chat = Chat(agent("root", "hi"))
    run = held(chat)
    run.pause()
    assert (await run.result()).status == "paused"
    assert story(await go_on(chat, run.invocation_id)) == ["root: hi"]
    assert story(await chat.stored()) == ["user: go", "root: hi"]


async def test_an_agent_that_runs_as_a_tool_finishes_before_a_pause() -> None:
    gate = Gate()
    chat = Chat(
        LlmAgent(name="root", model=ByTurn(call("a", request="x"), "done"), tools=[AgentTool(searcher("a", gate))])
    )
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "paused"
    assert story(await chat.stored())[-1] == "root: a -> {'result': 'a is done'}"
    assert story(await go_on(chat, run.invocation_id)) == ["root: done"]


async def test_after_a_pause_another_message_may_come_instead() -> None:
    gate = Gate()
    chat = Chat(agent("root", call("look"), "something else", tools=[gate.look]))
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    await run.result()
    assert story(await chat.say("never mind"))[-1] == "root: something else"
    legal(await chat.stored())


@pytest.mark.parametrize("mode", ["single_turn", "task"])
async def test_paused_within_a_delegated_agent_it_goes_on_there(mode: Any) -> None:
    gate = Gate()
    clerk = searcher("clerk", gate, mode=mode)
    if mode == "task":
        clerk.model = ByTurn(
            [call("look", at="hills"), call("look", at="sea")], call("finish_task", result="clerk is done")
        )
    root = LlmAgent(name="root", model=ByTurn(call("clerk", request="x"), "done"), sub_agents=[clerk])
    chat = Chat(root)
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "paused"
    events = await go_on(chat, run.invocation_id)
    assert story(events)[-1] == "root: done"
    answers = [each.response for event in events for each in event.get_function_responses() if each.name == "clerk"]
    assert answers == [{"result": "clerk is done"}]
    legal(await chat.stored())


@pytest.mark.parametrize("mode", ["single_turn", "task"])
async def test_paused_within_a_delegated_agent_the_one_that_called_it_is_not_over(mode: Any) -> None:
    """Although a result beside it is shown as it is, and would end the turn."""
    gate, ended = Gate(), []

    def show(tool_context: ToolContext) -> str:
        """Show."""
        tool_context.actions.skip_summarization = True
        return "shown"

    said = call("finish_task", result="clerk is done") if mode == "task" else "clerk is done"
    clerk = LlmAgent(name="clerk", model=ByTurn(call("look"), said), tools=[gate.look], mode=mode)
    root = agent("root", [call("show"), call("clerk", request="x")], "done", tools=[show], sub_agents=[clerk])
    root.after_agent_callback = lambda callback_context: ended.append("root")
    chat = Chat(root)
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "paused"
    assert ended == []
    assert "-> {'result': 'clerk is done'}" in story(events := await go_on(chat, run.invocation_id))[-2]
    assert story(events)[-1] == "root: done"
    assert ended == ["root"]
    legal(await chat.stored())


async def test_paused_within_a_delegated_agent_the_model_that_called_it_is_not_listened_to() -> None:
    async def goes_on(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=said(call("clerk", request="x")))
        yield LlmResponse(content=said("and I know nothing yet"))

    gate = Gate()
    clerk = LlmAgent(name="clerk", model=ByTurn(call("look")), tools=[gate.look], mode="single_turn")
    chat = Chat(LlmAgent(name="root", model=FunctionModel(goes_on), sub_agents=[clerk]))
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "paused"
    assert "root: and I know nothing yet" not in story(await chat.stored())


@pytest.mark.parametrize("shape", ["a sequence", "parallel branches", "a transfer"])
async def test_cancelled_at_once_it_can_be_gone_on_with(shape: str) -> None:
    """What was cut off has an error result, and the agents take it from there."""
    gate = Gate()
    chat = Chat(SHAPES[shape](gate))
    run = held(chat)
    await gate.reached.wait()
    run.cancel()
    await run.result()
    gate.open.set()
    events = await go_on(chat, run.invocation_id)
    legal(await chat.stored())
    assert events[-1].is_final_response()


async def test_agents_as_tools_that_wait_keep_their_questions_when_a_call_beside_them_is_cut_off() -> None:
    """All of them: what they ask comes with the answers of the others otherwise."""
    gate = Gate()

    def pay() -> str:
        """Pay."""
        return "paid"

    def asking(name: str) -> AgentTool:
        paying = FunctionTool(pay, require_confirmation=True)
        return AgentTool(LlmAgent(name=name, model=ByTurn(call("pay"), f"{name} has paid"), tools=[paying]))

    calls = [call("one", request="x"), call("two", request="x"), call("look")]
    chat = Chat(LlmAgent(name="root", model=ByTurn(calls, "done"), tools=[asking("one"), asking("two"), gate.look]))
    run = held(chat)
    await gate.reached.wait()
    for _ in range(100):  # both agents come to their questions
        await asyncio.sleep(0)
    run.cancel()
    await run.result()
    requests = pending(await chat.stored())
    assert len(requests) == 2
    await chat.answer(*map(approve, requests))
    legal(stored := await chat.stored())
    answers = {each.name: each.response for event in stored for each in event.get_function_responses()}
    assert (answers["one"], answers["two"]) == ({"result": "one has paid"}, {"result": "two has paid"})


@pytest.mark.parametrize("how", ["pause", "cancel"])
async def test_a_single_turn_agent_that_waits_beside_one_in_which_the_run_was_stopped_waits_on(how: str) -> None:
    """Both calls stay open: the answer resumes the one, and the run goes on in the other."""
    gate = Gate()
    ordering = LongRunningFunctionTool(func=order)
    buyer = agent("buyer", named_call("o1", "order"), "bought", mode="single_turn", tools=[ordering])
    calls = [call("buyer", request="Buy."), call("slow", request="Look.")]
    root = agent("root", calls, "done", sub_agents=[buyer, searcher("slow", gate, mode="single_turn")])
    chat = Chat(root)
    run = held(chat)
    await gate.reached.wait()
    assert [each.id for each in (await stopped(run, how, gate)).pending] == ["o1"]
    events = await chat.answer(result("o1", "order", {"ok": True}))
    answers = [(r.name, r.response) for each in events if each.author == "root" for r in each.get_function_responses()]
    assert answers == [("buyer", {"result": "bought"}), ("slow", {"result": "slow is done"})]
    assert story(events)[-1] == "root: done"
    nothing_left()


@pytest.mark.parametrize("how", ["pause", "cancel"])
async def test_a_single_turn_agent_waits_on_if_the_run_is_stopped_in_another_branch_meanwhile(how: str) -> None:
    gate, other = Gate(), Gate()

    async def order_slowly() -> None:
        """Order: the result comes later."""
        await gate()

    ordering = LongRunningFunctionTool(func=order_slowly)
    buyer = agent("buyer", named_call("o1", "order_slowly"), "bought", mode="single_turn", tools=[ordering])
    root = agent("root", call("buyer", request="Buy."), "done", sub_agents=[buyer])
    chat = Chat(ParallelAgent(name="side", sub_agents=[root, searcher("other", other)]))
    run = held(chat)
    await gate.reached.wait()
    await other.reached.wait()
    run.pause() if how == "pause" else run.cancel("after_step")
    other.open.set()
    while not any(each.get_function_responses() for each in await chat.stored()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    gate.open.set()
    over = await run.result()
    assert over.status == ("paused" if how == "pause" else "cancelled")
    assert [each.id for each in over.pending] == ["o1"]
    told = by_branch(await chat.answer(result("o1", "order_slowly", {"ok": True})))
    assert told["side.root"] == ["root: buyer -> {'result': 'bought'}", "root: done"]
    assert told["side.other"][-1] == "other: other is done"
